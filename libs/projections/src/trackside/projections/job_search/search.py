"""Searches jobs: a condition, a sort order and a page, answered from one snapshot of the read models."""

from dataclasses import dataclass, field
from functools import partial

from trackside.domain.rows.table import ViewRow
from trackside.projections.database.postgres import (
    Connection,
    Database,
    StatementTimeoutError,
    fetch_within,
    sql,
)
from trackside.projections.job_search.cursors import JobSortKey, read_cursor, write_cursor
from trackside.projections.job_search.details import details_of
from trackside.projections.job_search.expressions import (
    JobCondition,
    MetricName,
    Name,
    ParameterPath,
    SearchRefused,
    tests_of,
)
from trackside.projections.job_search.fields import shown_name
from trackside.projections.job_search.known_names import Fetch, check_metrics, check_parameters
from trackside.projections.job_search.pages import (
    ColumnType,
    SortOrder,
    column_type,
    likely_statement,
    page_statement,
    sorts_floats,
)
from trackside.projections.job_search.parsing import parse_condition, parse_name

MAX_LIMIT = 999
"""How many jobs a page may have."""
MAX_COLUMNS = 50
"""How many columns may be asked for in addition to those that a condition names."""
SEARCH_LIMIT_S = 10.0
"""How long Postgres may take for one query of a search, in s."""
MAX_LIKELY = 5_000
"""How many jobs that may match are looked up one by one; of more, all jobs are read."""
DEFAULT_SORT = "started_at"


@dataclass(frozen=True, slots=True)
class JobSearch:
    """What jobs to find: a condition ("" for all), the name they are sorted by, and the page.

    Without `sort` the newest are first. `cursor` is that of the page before. `columns` are names whose types
    are returned, and metrics whose values are, in addition to those that are named in the condition.
    """

    where: str = ""
    sort: str = ""
    descending: bool = False
    limit: int = 50
    cursor: str = ""
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundJobs:
    """A page of jobs. `total` counts all that match, `cursor` is that of the next page, None after the last.

    A job is a row with the fields of `FIELDS`, except `tags`; `params`, all of its parameters by name; and
    `metrics`, by tag the statistics of those that were named. `types` are those of the named columns over all
    jobs that match: {"params.lr": "float"}.
    """

    jobs: list[ViewRow]
    total: int
    cursor: str | None
    types: dict[str, ColumnType] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Plan:
    """A search, parsed."""

    condition: JobCondition | None
    order: SortOrder
    columns: tuple[Name, ...]
    identity: str
    limit: int

    @property
    def names(self) -> list[tuple[str, Name]]:
        """All names, each with the part of the search that it is in."""
        tests = [] if self.condition is None else list(tests_of(self.condition))
        found: list[tuple[str, Name]] = [("where", test.name) for test in tests]
        return [*found, ("sort", self.order.name), *(("columns", name) for name in self.columns)]


async def search_jobs(database: Database, search: JobSearch, *, limit_s: float = SEARCH_LIMIT_S) -> FoundJobs:
    """Returns a page of jobs. `database` is opened on the live schema.

    Raises SearchRefused if the search is malformed, has a name that no job has, or takes longer than
    `limit_s` seconds; PostgresGoneError and SchemaMissingError as all reads do.
    """
    plan = _plan(search)
    try:
        found = await database.transaction(partial(_page, plan, limit_s), repeatable_read=True)
    except StatementTimeoutError:
        message = (
            f"the search took longer than {limit_s:g} s and was stopped: add a condition on stream, "
            "task_type or started_at, name fewer metrics, or try again when the database is less busy"
        )
        raise SearchRefused("search_too_slow", message) from None
    if isinstance(found, SearchRefused):
        raise found
    return found


def _plan(search: JobSearch) -> _Plan:
    if isinstance(search.limit, bool) or not 1 <= search.limit <= MAX_LIMIT:
        message = f"expected 1 to {MAX_LIMIT}, got {search.limit!r}"
        raise SearchRefused("limit_range", message, path="limit")
    if len(search.columns) > MAX_COLUMNS:
        message = f"{len(search.columns)} columns, at most {MAX_COLUMNS} are allowed"
        raise SearchRefused("too_long", message, path="columns")
    condition = parse_condition(search.where) if search.where.strip() else None
    name = parse_name(search.sort or DEFAULT_SORT, "sort")
    descending = search.descending if search.sort else not search.descending
    identity = repr((search.where, search.sort, descending))
    after = None
    if search.cursor:
        after = read_cursor(search.cursor, identity, is_float=sorts_floats(name))
    columns = tuple(parse_name(column, "columns") for column in search.columns)
    return _Plan(condition, SortOrder(name, descending, after), columns, identity, search.limit)


async def _page(plan: _Plan, limit_s: float, connection: Connection) -> FoundJobs | SearchRefused:
    """Returns the page, or why the search is refused."""

    async def fetch(statement: str, *values: object) -> list[ViewRow]:
        return [dict(record) for record in await fetch_within(connection, statement, values, limit_s)]

    jobs = sql("queries", "jobs")
    typed = list(dict.fromkeys(name for _, name in plan.names if isinstance(name, ParameterPath)))
    try:
        # A plan for any list of jobs expects ten of them.
        await connection.execute("SET LOCAL plan_cache_mode = force_custom_plan")
        likely = await _likely(fetch, plan.condition)
        statement, values = page_statement(jobs, plan.condition, plan.order, typed, plan.limit + 1, likely)
        rows = await fetch(statement, *values)
        summary = rows[0]
        bits = {name: summary[f"types_{at}"] or 0 for at, name in enumerate(typed)}
        await _check_names(fetch, plan, bits)
    except SearchRefused as refused:
        return refused
    found = [row for row in rows if row["id"] is not None]
    shown = found[: plan.limit]
    tags = list(dict.fromkeys(name.tag for _, name in plan.names if isinstance(name, MetricName)))
    details = await details_of(fetch, jobs, [(row["id"], row["stream"]) for row in shown], tags)
    cursor = write_cursor(_sort_key(shown[-1]), plan.identity) if len(found) > len(shown) else None
    types = {
        shown_name(name): column_type(name, bits.get(name, 0) if isinstance(name, ParameterPath) else 0)
        for _, name in plan.names
        if shown_name(name) != "tags"
    }
    return FoundJobs(details, summary["total"], cursor, types)


async def _likely(fetch: Fetch, condition: JobCondition | None) -> list[str] | None:
    """Returns the ids of all jobs that may match, if few may: Postgres plans better for ids that it knows."""
    found = None if condition is None else likely_statement(condition, MAX_LIKELY + 1)
    if found is None:
        return None
    statement, values = found
    rows = await fetch(statement, *values)
    return sorted({row["task_id"] for row in rows}) if len(rows) <= MAX_LIKELY else None


async def _check_names(fetch: Fetch, plan: _Plan, bits: dict[ParameterPath, int]) -> None:
    """Raises SearchRefused for a name that no job has; a parameter that was found exists."""
    for path in ("where", "sort", "columns"):
        names = [name for at, name in plan.names if at == path]
        metrics = [name for name in names if isinstance(name, MetricName)]
        if metrics:
            await check_metrics(fetch, metrics, path)
        unseen = [name for name in names if isinstance(name, ParameterPath) and not bits[name]]
        await check_parameters(fetch, unseen, path)


def _sort_key(row: ViewRow) -> JobSortKey:
    return JobSortKey(row["sort_rank"], row["sort_number"], row["sort_text"], row["id"], row["stream"])
