"""One page of the trials of a search, sorted and filtered in Postgres."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from trackside.domain.rows.table import ViewRow
from trackside.projections.pages.experiments import BadFilterError
from trackside.projections.pages.trial_columns import OBJECTIVES, PARAMETERS, read_objectives
from trackside.projections.reading.read_pool import SnapshotModels
from trackside.projections.reading.reads import plain_rows

_COLUMNS = (
    "trial, task_id, status, source, space_version, value, non_finite, objective_values, others, missing, "
    "outside, parameters, suggested_at, ended_at, duration_s, reports, last_step, last_value, best, "
    "in_pareto_front, from_trial, from_step, step_limit, trace_id"
)
_SORT_KEYS: Mapping[str, str] = {
    "trial": "trial",
    "value": "nullif(value, 'NaN')",
    "status": "status",
    "source": "source",
    "started": "suggested_ms",
    "ended": "ended_ms",
    "duration": "ended_ms - suggested_ms",
    "last_value": "nullif(last_value, 'NaN')",
    "reports": "cardinality(report_steps)",
}


@dataclass(frozen=True, slots=True)
class TrialsPage:
    """A page of trials with the columns of view `trials` except the reports; `total`: how many match."""

    rows: Sequence[ViewRow]
    total: int


@dataclass(frozen=True, slots=True)
class TrialFilter:
    """Which trials of a search are shown, in which order; trials without a value to sort by come last.

    `sort` is a column (trial, value, status, source, started, ended, duration, last_value, reports),
    `objectives.NAME`, or `parameters.NAME`; a parameter of a sub-space is `parameters.CHOICE.NAME`.
    `text` is a part of the number or of the parameters as JSON, in any case.
    """

    sort: str = "trial"
    descending: bool = False
    statuses: Sequence[str] = ()
    text: str = ""
    limit: int = 100
    offset: int = 0


async def read_trials_page(models: SnapshotModels, search_id: str, wanted: TrialFilter) -> TrialsPage:
    """Returns a page of the trials of a search, and how many trials match on all pages.

    Raises BadFilterError for a sort key that there is none of; a parameter that no trial has is none.
    """
    key, condition, values = await matching_trials(models, search_id, wanted)
    order = order_of(wanted)
    # A text is looked for once, since that takes longest; without one, Postgres keeps the best rows only.
    materialized = "MATERIALIZED" if wanted.text else "NOT MATERIALIZED"
    statement = f"""
        WITH matching AS {materialized} (
            SELECT trial, {key} AS sort_key FROM trials WHERE {condition}
        ),
        page AS (
            SELECT trial, sort_key FROM matching ORDER BY {order}
            LIMIT {max(0, wanted.limit)} OFFSET {max(0, wanted.offset)}
        )
        SELECT counted.total, shown.*
        FROM (SELECT count(*) AS total FROM matching) AS counted
        LEFT JOIN (
            SELECT {_COLUMNS}, row_number() OVER (ORDER BY {order}) AS place
            FROM page JOIN trials USING (trial)
            WHERE search_id = $1
        ) AS shown ON true
        ORDER BY shown.place
    """  # noqa: S608
    rows = await models.fetch(statement, *values)
    total = int(rows[0].pop("total"))
    for row in rows:
        row.pop("total", None)
        row.pop("place")
    return TrialsPage([row for row in rows if row["trial"] is not None], total)


def order_of(wanted: TrialFilter) -> str:
    """Returns the order of trials by `sort_key` as SQL."""
    return f"sort_key {'DESC' if wanted.descending else 'ASC'} NULLS LAST, trial"


async def matching_trials(
    models: SnapshotModels, search_id: str, wanted: TrialFilter
) -> tuple[str, str, list[object]]:
    """Returns the expression of the sort key, the condition of the filter, and the values of both.

    Raises BadFilterError for a sort key that there is none of.
    """
    values: list[object] = [search_id]
    key = await _sort_key(models, search_id, wanted.sort, values)
    conditions = ["search_id = $1"]
    if wanted.statuses:
        values.append(list(wanted.statuses))
        conditions.append(f"status = ANY(${len(values)}::text[])")
    if wanted.text:
        values.append(wanted.text)
        conditions.append(f"strpos(lower(trial || ' ' || parameters::text), lower(${len(values)}::text)) > 0")
    return key, " AND ".join(conditions), values


async def _sort_key(models: SnapshotModels, search_id: str, sort: str, values: list[object]) -> str:
    """Returns the expression of a sort key, and adds its value to `values`."""
    if sort in _SORT_KEYS:
        return _SORT_KEYS[sort]
    if sort.startswith(PARAMETERS):
        name = sort.removeprefix(PARAMETERS)
        values += [name, name.split(".")]
        given = f"coalesce(parameters -> ${len(values) - 1}::text, parameters #> ${len(values)}::text[])"
        # The order of jsonb: null, texts, numbers by size, others. A sub-space has the place of its name.
        return f"coalesce({given} -> '_name', {given})"
    if sort.startswith(OBJECTIVES):
        known = await read_objectives(models, search_id)
        named = [each for each in known if each.name == sort.removeprefix(OBJECTIVES)]
        if named:
            return f"nullif({named[0].value}, 'NaN')"
    keys = ", ".join(_SORT_KEYS)
    raise BadFilterError(f"sort key {sort!r}: expected one of {keys}, {OBJECTIVES}NAME, {PARAMETERS}NAME")


BATCH_TRIALS = 1_000
SORT_LIMIT_S = 120
"""How long Postgres may sort before the first batch."""


async def export_trials(
    models: SnapshotModels, search_id: str, wanted: TrialFilter
) -> AsyncIterator[Sequence[ViewRow]]:
    """Yields the trials that match, in order, in batches of at most 1,000: those of one moment.

    Rows have trial, task_id, status, value, parameters, duration_s, suggested_at and ended_at. Limit and
    offset of the filter do not count. Raises BadFilterError for a sort key that there is none of.
    """
    key, condition, values = await matching_trials(models, search_id, wanted)
    await models.connection.execute(f"SET LOCAL statement_timeout = '{SORT_LIMIT_S}s'")
    statement = f"""
        SELECT trial, task_id, status, value, parameters, duration_s, suggested_at, ended_at
        FROM (SELECT *, {key} AS sort_key FROM trials WHERE {condition}) AS matching
        ORDER BY {order_of(wanted)}
    """  # noqa: S608
    prepared = await models.connection.prepare(statement)
    cursor = await prepared.cursor(*values)
    while batch := await cursor.fetch(BATCH_TRIALS):
        yield plain_rows(prepared, batch)
