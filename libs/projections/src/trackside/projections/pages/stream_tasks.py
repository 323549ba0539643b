"""Tasks and children of one stream as web pages show them: filtered, sorted and cut by Postgres."""

from dataclasses import dataclass

from trackside.contracts.envelope.redaction import REDACTED
from trackside.domain.display.redacted import redacted_note
from trackside.domain.rows.table import ViewRow
from trackside.projections.reading.read_pool import SnapshotModels

TASK_SORTS = {
    "place": ("tasks.group_number", "tasks.queued_at"),
    "task": ("tasks.task_id",),
    "type": ("tasks.task_type",),
    "state": ("coalesce(tasks.ending, tasks.state)",),
    "value": ("tasks.objective",),
    "queued": ("tasks.queued_at",),
    "ended": ("tasks.ended_at",),
    "took": ("took_s",),
}
"""What tasks may be sorted by, with the columns."""


@dataclass(frozen=True, slots=True)
class StreamTaskFilter:
    """Which tasks of a stream are shown.

    Those named `name` and of the group with number `group` (None: any), whose id, name or type contains
    `text`, and whose end, or state if they have not ended, is `state` (empty: any).
    """

    stream_id: str
    name: str | None = None
    group: int | None = None
    text: str = ""
    state: str = ""
    sort: str = "place"
    descending: bool = False
    limit: int = 50
    offset: int = 0


_WHERE = (
    "tasks.stream_id = $1 AND ($2::text IS NULL OR tasks.name = $2) "
    "AND ($3::integer IS NULL OR tasks.group_number = $3) "
    "AND ($4 = '' OR strpos(lower(tasks.task_id), lower($4)) > 0 OR strpos(lower(tasks.name), lower($4)) > 0 "
    "OR strpos(lower(tasks.task_type), lower($4)) > 0) "
    "AND ($5 = '' OR coalesce(tasks.ending, tasks.state) = $5)"
)
_COLUMNS = (
    "tasks.task_id, tasks.stream_id, tasks.task_type, tasks.group_number, tasks.name, tasks.state, "
    "tasks.ending, tasks.objective, tasks.attempts, tasks.worker_id, tasks.device_ids, tasks.unschedulable, "
    "tasks.priority, tasks.queued_at, tasks.ended_at, attempts.assigned_at, attempts.error_type, "
    "attempts.error_message, "
    f"CASE WHEN strpos(tasks.result::text, '{REDACTED}') > 0 THEN tasks.result END AS redacted, "
    "extract(epoch FROM tasks.ended_at - attempts.assigned_at)::double precision AS took_s"
)


async def read_stream_tasks(models: SnapshotModels, wanted: StreamTaskFilter) -> list[ViewRow]:
    """Returns tasks with the device, the times and the error of their newest attempts.

    `redacted` says where the result of a task is. `took_s` is from the assignment of that attempt to the end
    of the task, s.
    """
    direction = "DESC" if wanted.descending else "ASC"
    order = ", ".join(f"{each} {direction} NULLS LAST" for each in TASK_SORTS[wanted.sort])
    statement = (
        f"SELECT {_COLUMNS} FROM tasks LEFT JOIN attempts ON attempts.task_id = tasks.task_id "  # noqa: S608
        "AND attempts.stream_id = tasks.stream_id AND attempts.attempt = tasks.attempts "
        f"WHERE {_WHERE} ORDER BY {order}, tasks.task_id LIMIT $6 OFFSET $7"
    )
    rows = await models.fetch(statement, *_values(wanted), wanted.limit, wanted.offset)
    return [row | {"redacted": redacted_note(row["redacted"])} for row in rows]


async def count_stream_tasks(models: SnapshotModels, wanted: StreamTaskFilter) -> int:
    """Returns how many tasks the filter admits."""
    statement = f"SELECT count(*) AS tasks FROM tasks WHERE {_WHERE}"  # noqa: S608 - our columns
    found = await models.fetch(statement, *_values(wanted))
    return int(found[0]["tasks"])


async def count_task_states(models: SnapshotModels, stream_id: str) -> dict[str, int]:
    """Returns how many tasks of a stream there are by their end, or by their state if they have none."""
    rows = await models.fetch(
        "SELECT coalesce(ending, state) AS state, count(*) AS tasks FROM tasks WHERE stream_id = $1 "
        "GROUP BY 1 ORDER BY 2 DESC, 1",
        stream_id,
    )
    return {row["state"]: row["tasks"] for row in rows}


async def read_children(
    models: SnapshotModels, stream_id: str, prefix: str, limit: int, offset: int = 0
) -> list[ViewRow]:
    """Returns children of a stream whose id is `prefix`, or begins with it and a dot; the oldest first."""
    return await models.fetch(
        "SELECT * FROM children WHERE stream_id = $1 AND (child_id = $2 OR starts_with(child_id, $2 || '.')) "
        "ORDER BY requested_at, child_id LIMIT $3 OFFSET $4",
        stream_id,
        prefix,
        limit,
        offset,
    )


def _values(wanted: StreamTaskFilter) -> tuple[object, ...]:
    return wanted.stream_id, wanted.name, wanted.group, wanted.text, wanted.state
