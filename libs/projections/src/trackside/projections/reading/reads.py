"""Named queries over the read models, on the views of schema dashboards: of tasks, workers, any aggregate."""

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

from trackside.aggregates.listings import LISTINGS, view_of
from trackside.domain.display.listing import StreamListing
from trackside.domain.display.times import Time
from trackside.domain.rows.table import ViewRow
from trackside.projections.database.postgres import Connection, Database

if TYPE_CHECKING:
    from trackside.domain.display.view import QueriedRows, View

SCHEMA = "dashboards"
POLL_EVERY_S = 0.05
LISTED = "listed"
"""The query over the streams of any kind that lists use."""

_QUERIES = {
    "tasks": "SELECT * FROM tasks WHERE stream_id = $1 ORDER BY group_number, queued_at, task_id",
    "some_tasks": "SELECT tasks.*, attempts.status AS attempt_status, attempts.assigned_at FROM tasks "
    "LEFT JOIN attempts USING (task_id, stream_id) "
    "WHERE attempts.attempt IS NOT DISTINCT FROM tasks.attempts "
    "AND ($1::text IS NULL OR tasks.stream_id = $1) AND ($2::text IS NULL OR tasks.state = $2) "
    "ORDER BY tasks.queued_at DESC, tasks.task_id LIMIT $3",
    "last_attempts": "SELECT attempts.* FROM attempts JOIN tasks USING (task_id, stream_id) "
    "WHERE tasks.stream_id = $1 AND attempts.attempt = tasks.attempts",
    "children": "SELECT * FROM children WHERE stream_id = $1 ORDER BY requested_at, child_id",
    "task": "SELECT * FROM tasks WHERE task_id = $1",
    "task_of_stream": "SELECT * FROM tasks WHERE stream_id = $1 AND task_id = $2",
    "attempts_of_task": "SELECT * FROM attempts WHERE stream_id = $1 AND task_id = $2 ORDER BY attempt",
    "tags_of_task": "SELECT DISTINCT tag FROM metric_series WHERE stream_id = $1 AND task_id = $2 "
    "AND kind = 'scalar' ORDER BY tag",
    "refused_commands": "SELECT * FROM commands WHERE status = 'refused' ORDER BY answered_at DESC LIMIT $1",
    "trial_counts": "SELECT status, count(*) AS trials FROM trials WHERE search_id = $1 "
    "GROUP BY status ORDER BY trials DESC, status",
    "stream_place": "SELECT * FROM streams WHERE stream_id = $1",
    "attempts": "SELECT * FROM attempts WHERE task_id = $1 ORDER BY attempt",
    "placements": "SELECT * FROM placements WHERE task_id = $1 ORDER BY attempt, placement",
    "artifacts": "SELECT * FROM artifacts WHERE ($1::text IS NULL OR stream_id = $1) "
    "AND ($2::text IS NULL OR task_id = $2) ORDER BY saved_at DESC, log_partition, log_offset DESC LIMIT $3",
    "artifacts_of_task": "SELECT * FROM artifacts WHERE task_id = $1 AND stream_id = $2 ORDER BY log_offset",
    "artifacts_by_digest": "SELECT * FROM artifacts WHERE starts_with(sha256, $1) ORDER BY saved_at, source",
    "inputs_by_digest": "SELECT * FROM artifact_uses WHERE starts_with(sha256, $1) ORDER BY submitted_at",
    "task_types": "SELECT * FROM task_types ORDER BY task_type",
    "task_type": "SELECT * FROM task_types WHERE task_type = $1",
    "labels": "SELECT tags, note, archived, changed_at FROM stream_labels WHERE stream_id = $1",
    "archived_streams": "SELECT kind, count(*) AS streams FROM stream_labels WHERE archived GROUP BY kind",
    "parked_streams": "SELECT stream_id, partition, parked_at, needs FROM streams "
    "WHERE parked_at IS NOT NULL ORDER BY stream_id LIMIT 1000",
    "parked_stream": "SELECT stream_id, partition, parked_at, needs FROM streams "
    "WHERE stream_id = $1 AND parked_at IS NOT NULL",
    "skipped_records": "SELECT * FROM skipped_records ORDER BY skipped_at DESC LIMIT 1000",
    "forgotten_streams": "SELECT * FROM forgotten_streams ORDER BY forgotten_at DESC LIMIT $1",
    "forgotten_stream": "SELECT * FROM forgotten_streams WHERE stream_id = $1",
    "commands": "SELECT * FROM commands WHERE stream_id = $1 ORDER BY received_at, command_id",
    "devices": "SELECT * FROM devices ORDER BY worker_id, device_id",
    "devices_page": "SELECT * FROM devices WHERE (worker_id, device_id) >= ("
    "SELECT worker_id, device_id FROM devices ORDER BY 1, 2 LIMIT 1 OFFSET $1) "
    "ORDER BY worker_id, device_id LIMIT $2",
    "present_devices": "SELECT * FROM devices WHERE state NOT IN ('left', 'lost') "
    "ORDER BY worker_id, device_id LIMIT $1",
    "device_states": "SELECT state, count(*) AS devices FROM devices "
    "WHERE state NOT IN ('left', 'lost') GROUP BY state",
    "device_count": "SELECT count(*) AS devices FROM devices",
    "device": "SELECT * FROM devices WHERE worker_id = $1 AND device_id = $2",
    "devices_of_worker": "SELECT device_id, draining FROM devices WHERE worker_id = $1 ORDER BY device_id",
    "newest_workers": "SELECT * FROM workers ORDER BY status <> 'here', joined_at DESC, worker_id LIMIT $1",
    "worker_count": "SELECT count(*) AS workers FROM workers",
    "queue": "SELECT queue, count(*) AS tasks FROM tasks WHERE state = 'queued' GROUP BY 1 ORDER BY 1",
    "dead_letters": "SELECT * FROM dead_letters ORDER BY written_at DESC LIMIT $1",
    "position": "SELECT position FROM positions WHERE owner = $1 AND topic = $2 AND partition = $3",
}

_LISTED = """
SELECT listed.*, jsonb_build_object(
    'tags', coalesce(labels.tags, '{{}}'), 'note', coalesce(labels.note, ''),
    'archived', coalesce(labels.archived, false)
) AS stream_labels
FROM ({newest}) AS listed LEFT JOIN stream_labels AS labels ON labels.stream_id = listed.{id_column}
WHERE ($2::boolean OR labels.archived IS NOT TRUE) AND coalesce(labels.tags, '{{}}') @> $3::text[]
ORDER BY listed.started_at DESC, listed.{id_column} LIMIT $4
"""
"""The newest streams of a kind among the newest $1, with their labels: also archived ones if $2, only those
with all tags of $3, at most $4.
"""


class RowReader(Protocol):
    """What answers named queries: the read models, or one snapshot of them."""

    async def rows(self, query: str, *values: object) -> list[ViewRow]:
        """Returns the rows of a named query, or of `KIND.NAME`: the query of an aggregate's view."""
        ...

    async def row(self, query: str, *values: object) -> ViewRow | None:
        """Returns the first row of a named query, or None."""
        ...


class ReadModels:
    """Queries the read models; every row is a dict of JSON-like values and datetimes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def rows(self, query: str, *values: object) -> list[ViewRow]:
        """Returns the rows of a named query, or of `KIND.NAME`: the query of an aggregate's view.

        Raises PostgresGoneError if Postgres doesn't respond, SchemaMissingError if the views don't exist.
        """
        return await self._database.transaction(
            lambda connection: fetch_rows(connection, statement_of(query), *values)
        )

    async def row(self, query: str, *values: object) -> ViewRow | None:
        """Returns the first row of a named query, or None."""
        found = await self.rows(query, *values)
        return found[0] if found else None

    async def until(self, owner: str, topic: str, partition: int, position: int, timeout_s: float) -> None:
        """Waits until an owner's rows include the log up to `position`, exclusive; raises TimeoutError."""
        async with asyncio.timeout(timeout_s):
            while True:
                found = await self.row("position", owner, topic, partition)
                if found is not None and found["position"] >= position:
                    return
                await asyncio.sleep(POLL_EVERY_S)


@asynccontextmanager
async def open_read_models(dsn: str) -> AsyncIterator[ReadModels]:
    """Opens the read models at a DSN for the duration of the block."""
    database = Database(dsn, SCHEMA)
    try:
        yield ReadModels(database)
    finally:
        database.terminate()


async def newest_streams(
    models: RowReader, limit: int, tags: Sequence[str] = (), *, archived: bool = False
) -> list[tuple[StreamListing, ViewRow]]:
    """Returns the rows of the newest streams of all kinds, at most `limit`, with the listing of each.

    Each has `stream_labels`: its tags, its note and whether it is archived. Only those with all of `tags`
    are returned, and archived ones only with `archived`.
    """
    counts = [] if archived else await models.rows("archived_streams")
    left_out = {row["kind"]: row["streams"] for row in counts}
    found: list[tuple[StreamListing, ViewRow]] = []
    for listing in LISTINGS.values():
        # A tag may be on old streams only; without tags at most the archived ones are left out.
        among = None if tags else limit + left_out.get(listing.kind, 0)
        rows = await models.rows(f"{listing.kind}.{LISTED}", among, archived, list(tags), limit)
        found += [(listing, row) for row in rows]
    return sorted(found, key=lambda each: each[1]["started_at"], reverse=True)[:limit]


def parked_text(row: ViewRow) -> str:
    """Returns why a stream is parked: `PARKED (needs a newer release: TYPE at PARTITION/OFFSET)`."""
    return f"PARKED (needs {row['needs']} at {row['partition']}/{row['parked_at']})"


async def row_of_stream(models: RowReader, stream_id: str) -> "tuple[View[Any], ViewRow] | None":
    """Returns the view of a stream and its row, or None if nothing has begun in it."""
    for kind in LISTINGS:
        row = await models.row(f"{kind}.one", stream_id)
        if row is not None:
            return view_of(kind), row
    return None


async def queried_rows(
    models: RowReader, view: "View[Any]", queries: Iterable[str], stream_id: str
) -> "QueriedRows":
    """Returns the rows of several queries over one stream: those of its view, or those over any stream."""
    return {
        name: await models.rows(f"{view.kind}.{name}" if name in view.queries else name, stream_id)
        for name in queries
    }


def json_row(row: ViewRow) -> ViewRow:
    """Returns a row with its times in RFC 3339, to be written as JSON."""
    return {name: value.isoformat() if isinstance(value, Time) else value for name, value in row.items()}


def statement_of(query: str) -> str:
    """Returns the statement of a named query, or of `KIND.NAME`: the query of an aggregate's view."""
    kind, dot, name = query.partition(".")
    if not dot:
        return _QUERIES[query]
    listing = LISTINGS[kind]
    match name:
        case "listed":
            return _LISTED.format(newest=listing.newest, id_column=listing.id_column)
        case "newest":
            return listing.newest
        case "one":
            return listing.one
    return view_of(kind).queries[name]


async def fetch_rows(connection: Connection, statement: str, *values: object) -> list[ViewRow]:
    """Returns the rows of a statement as dicts of JSON-like values and datetimes.

    The statement is prepared each time: one that is kept fails once its views have other columns.
    """
    prepared = await connection.prepare(statement)
    return plain_rows(prepared, await prepared.fetch(*values))


def plain_rows(prepared: Any, records: Iterable[Any]) -> list[ViewRow]:
    """Returns records of a prepared statement as dicts of JSON-like values and datetimes."""
    json_columns = {
        column.name for column in prepared.get_attributes() if column.type.name in ("json", "jsonb")
    }
    return [_row(record, json_columns) for record in records]


def _row(record: Any, json_columns: Collection[str]) -> ViewRow:
    return {
        name: json.loads(value) if name in json_columns and value is not None else _plain(value)
        for name, value in record.items()
    }


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value
