"""Streams of all kinds in one list: filtered, sorted and counted; what runs now, and what failed lately."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trackside.aggregates.registry import AGGREGATES
from trackside.domain.folding.aggregate import AggregateType
from trackside.domain.rows.table import ViewRow
from trackside.projections.reading.read_pool import SnapshotModels

SORT_KEYS: Mapping[str, str] = {
    "started": "started_at",
    "ended": "ended_at",
    "duration": "duration_s",
    "name": 'name COLLATE "default"',
    "status": 'status COLLATE "C"',
    "kind": 'kind COLLATE "C"',
    "id": 'id COLLATE "C"',
    "best": "best",
}
"""What the list may be sorted by, and its expression."""
BAD_ENDS = ("failed", "oom_host", "oom_device", "lost", "timed_out_queue", "timed_out_run", "refused")
"""The ends of attempts that are failures; the index `attempts_that_failed` has the same ones."""
_COLUMNS = (
    "listed.id, listed.name, listed.status, listed.started_at, listed.ended_at, "
    "listed.duration_s::double precision AS duration_s, listed.ended::bigint AS ended, "
    "listed.total::bigint AS total, listed.best::double precision AS best, listed.tuner, listed.runs"
)


class BadFilterError(ValueError):
    """A kind or a sort key that the list of experiments doesn't have; the message lists those it has."""


@dataclass(frozen=True, slots=True)
class ExperimentFilter:
    """Which streams are listed, in which order.

    `text` is a part of their id or name, in any case. Empty `kinds` and `statuses` mean any. Streams have all
    of `tags`; those that are archived are listed only with `archived`. Streams without a value to sort by
    come last.
    """

    text: str = ""
    kinds: Sequence[str] = ()
    statuses: Sequence[str] = ()
    tags: Sequence[str] = ()
    archived: bool = False
    sort: str = "started"
    descending: bool = True
    limit: int = 50
    offset: int = 0

    def __post_init__(self) -> None:
        """Checks the names; raises BadFilterError."""
        if self.sort not in SORT_KEYS:
            raise BadFilterError(f"sort key {self.sort!r}: expected one of {', '.join(SORT_KEYS)}")
        for kind in self.kinds:
            if kind not in AGGREGATES.by_kind:
                raise BadFilterError(f"kind {kind!r}: expected one of {', '.join(AGGREGATES.by_kind)}")


@dataclass(frozen=True, slots=True)
class ExperimentsPage:
    """A page of streams as they are listed, and how many match on all pages."""

    rows: Sequence[ViewRow]
    total: int


async def read_experiments(models: SnapshotModels, wanted: ExperimentFilter) -> list[ViewRow]:
    """Returns a page of streams: the columns of `View.listing`, `kind`, `tags`, `note` and `archived`."""
    condition, values = _condition(wanted)
    statement = (
        f"SELECT kind, id FROM ({_every(wanted.kinds)}) AS listed WHERE {condition} "  # noqa: S608
        f'ORDER BY {SORT_KEYS[wanted.sort]} {_direction(wanted)}, started_at DESC, id COLLATE "C" '
        f"LIMIT {max(0, wanted.limit)} OFFSET {max(0, wanted.offset)}"
    )
    return await _page_rows(models, await models.fetch(statement, *values))


async def read_experiments_page(models: SnapshotModels, wanted: ExperimentFilter) -> ExperimentsPage:
    """Returns a page of streams as `read_experiments` does, and how many match on all pages."""
    if not wanted.text:
        return ExperimentsPage(
            await read_experiments(models, wanted), await count_experiments(models, wanted)
        )
    # A text is looked for in all ids and names, which takes most of the time: once for page and number.
    condition, values = _condition(wanted)
    order = f'sort_key {_direction(wanted)}, started_at DESC, id COLLATE "C"'
    statement = f"""
        WITH matching AS MATERIALIZED (
            SELECT kind, id, {SORT_KEYS[wanted.sort]} AS sort_key, started_at
            FROM ({_every(wanted.kinds)}) AS listed WHERE {condition}
        )
        SELECT counted.total, shown.kind, shown.id
        FROM (SELECT count(*) AS total FROM matching) AS counted
        LEFT JOIN (
            SELECT kind, id, sort_key, started_at FROM matching ORDER BY {order}
            LIMIT {max(0, wanted.limit)} OFFSET {max(0, wanted.offset)}
        ) AS shown ON true
        ORDER BY {order}
    """  # noqa: S608 - our names
    found = await models.fetch(statement, *values)
    rows = await _page_rows(models, [row for row in found if row["id"] is not None])
    return ExperimentsPage(rows, int(found[0]["total"]))


async def count_experiments(models: SnapshotModels, wanted: ExperimentFilter) -> int:
    """Returns how many streams match on all pages."""
    condition, values = _condition(wanted)
    statement = f"SELECT count(*) AS streams FROM ({_every(wanted.kinds)}) AS listed WHERE {condition}"  # noqa: S608
    return int((await models.fetch(statement, *values))[0]["streams"])


async def _page_rows(models: SnapshotModels, page: Sequence[ViewRow]) -> list[ViewRow]:
    """Returns streams as they are listed: how many parts have ended is counted for those of a page only."""
    found = await read_listed(models, [row["id"] for row in page], {row["kind"] for row in page})
    return [found[row["id"]] for row in page]


def _direction(wanted: ExperimentFilter) -> str:
    return f"{'DESC' if wanted.descending else 'ASC'} NULLS LAST"


async def read_statuses(models: SnapshotModels) -> list[str]:
    """Returns the statuses that streams have, of all kinds."""
    # DISTINCT in each branch: no row of a large table leaves it.
    branches = " UNION ".join(
        f"SELECT DISTINCT status FROM ({aggregate.view.listing}) AS listed"  # noqa: S608 - our names
        for aggregate in AGGREGATES.types
    )
    rows = await models.fetch(branches)
    return sorted(str(row["status"]) for row in rows)


async def read_listed(
    models: SnapshotModels, ids: Collection[str], kinds: Collection[str] = ()
) -> dict[str, ViewRow]:
    """Returns streams by id as they are listed; ids that don't exist have none. `kinds`: of these, or any."""
    if not ids:
        return {}
    branches = (
        f"SELECT '{aggregate.kind}' AS kind, {_COLUMNS} FROM ({aggregate.view.listing}) AS listed "  # noqa: S608
        "WHERE listed.id = ANY($1::text[])"
        for aggregate in _types(kinds)
    )
    statement = f"""
        SELECT
            listed.*, coalesce(labels.tags, '{{}}') AS tags, coalesce(labels.note, '') AS note,
            coalesce(labels.archived, false) AS archived
        FROM ({" UNION ALL ".join(branches)}) AS listed
        LEFT JOIN stream_labels AS labels ON labels.stream_id = listed.id
    """  # noqa: S608 - our names
    rows = await models.fetch(statement, list(ids))
    return {row["id"]: row for row in rows}


async def count_tags(models: SnapshotModels) -> dict[str, int]:
    """Returns how many streams have each tag, the most frequent first."""
    rows = await models.fetch(
        "SELECT tag, count(*) AS streams FROM stream_labels CROSS JOIN unnest(tags) AS tag "
        "GROUP BY tag ORDER BY streams DESC, tag"
    )
    return {row["tag"]: row["streams"] for row in rows}


async def running_now(models: SnapshotModels, limit: int = 100) -> list[ViewRow]:
    """Returns the streams that have open tasks, children or gates, as they are listed, the newest first.

    Each also has `queued_tasks`, `running_tasks`, `services` (of the running tasks), `open_children` and
    `open_gates`.
    """
    counts = await models.fetch(
        """
        SELECT
            stream_id, count(*) FILTER (WHERE state = 'queued') AS queued_tasks,
            count(*) FILTER (WHERE state IN ('placed', 'active')) AS running_tasks,
            count(*) FILTER (WHERE service AND state IN ('placed', 'active')) AS services,
            sum(children)::bigint AS open_children, sum(gates)::bigint AS open_gates
        FROM (
            SELECT stream_id, state, service, 0 AS children, 0 AS gates FROM tasks WHERE state <> 'ended'
            UNION ALL
            SELECT stream_id, '', false, 1, 0 FROM children WHERE ended_at IS NULL
            UNION ALL
            SELECT run_id, '', false, 0, 1 FROM gates WHERE state = 'open'
        ) AS open_parts
        GROUP BY stream_id
        """
    )
    by_stream = {row["stream_id"]: row for row in counts}
    listed = await read_listed(models, by_stream)
    newest = sorted(listed.values(), key=lambda row: (row["started_at"], row["id"]), reverse=True)[:limit]
    return [{**by_stream[row["id"]], **row} for row in newest]


async def newest_failures(models: SnapshotModels, limit: int = 20) -> list[ViewRow]:
    """Returns the attempts that ended badly, the newest first, with the kind and name of their stream.

    Attempts that were preempted or cancelled, by users or an assessor, are not among them.
    """
    bad = ", ".join(f"'{end}'" for end in BAD_ENDS)
    rows = await models.fetch(
        f"""
        SELECT
            failed.*, tasks.task_type, tasks.trial, tasks.name AS task_name, tasks.state AS task_state,
            tasks.attempts AS attempts_so_far
        FROM (
            SELECT
                stream_id, task_id, attempt, placement, ending, worker_id, device_ids, exit_code, error_stage,
                error_type, error_message, ended_at
            FROM attempts
            WHERE ending IN ({bad})
            ORDER BY ended_ms DESC
            LIMIT $1
        ) AS failed
        JOIN tasks ON tasks.task_id = failed.task_id AND tasks.stream_id = failed.stream_id
        ORDER BY failed.ended_at DESC, failed.stream_id, failed.task_id
        """,  # noqa: S608 - our names
        limit,
    )
    listed = await read_listed(models, {row["stream_id"] for row in rows})
    nothing: ViewRow = {"kind": None, "name": None}
    return [
        {**row, **{name: listed.get(row["stream_id"], nothing)[name] for name in nothing}} for row in rows
    ]


def _types(kinds: Collection[str]) -> list[AggregateType[Any]]:
    return [aggregate for aggregate in AGGREGATES.types if not kinds or aggregate.kind in kinds]


def _every(kinds: Collection[str]) -> str:
    """Returns the statement of all streams of these kinds, with what a list is filtered and sorted by."""
    return " UNION ALL ".join(
        f'SELECT \'{aggregate.kind}\' AS kind, id COLLATE "C" AS id, name COLLATE "default" AS name, '  # noqa: S608
        "status, started_at, ended_at, duration_s::double precision AS duration_s, "
        f"best::double precision AS best FROM ({aggregate.view.listing}) AS listed"
        for aggregate in _types(kinds)
    )


def _condition(wanted: ExperimentFilter) -> tuple[str, list[object]]:
    conditions, values = ["true"], list[object]()
    if wanted.text:
        values.append(wanted.text)
        part = f"lower(${len(values)}::text)"
        conditions.append(
            f'(strpos(lower(name COLLATE "default"), {part}) > 0 '
            f'OR strpos(lower(id COLLATE "default"), {part}) > 0)'
        )
    if wanted.statuses:
        values.append(list(wanted.statuses))
        conditions.append(f"status = ANY(${len(values)}::text[])")
    if wanted.tags:
        values.append(list(wanted.tags))
        tagged = "SELECT stream_id FROM stream_labels WHERE tags @>"
        conditions.append(f"id IN ({tagged} ${len(values)}::text[])")
    if not wanted.archived:
        conditions.append("id NOT IN (SELECT stream_id FROM stream_labels WHERE archived)")
    return " AND ".join(conditions), values
