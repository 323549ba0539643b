"""Named queries over the read models, on the views of schema dashboards."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from decimal import Decimal
from typing import Any

from trackside.projections.postgres import Connection, Database

SCHEMA = "dashboards"
POLL_EVERY_S = 0.05

ViewRow = dict[str, Any]
_JSON = frozenset({"best_parameters", "spec", "parameters", "others", "result", "ends"})
_QUERIES = {
    "searches": "SELECT * FROM searches ORDER BY started_at DESC, search_id LIMIT $1",
    "search": "SELECT * FROM searches WHERE search_id = $1",
    "batches": "SELECT batch_id, name, status, groups, tasks, groups_over, submitted, open_tasks, "
    "finished_tasks, unfinished_tasks, concurrency, queue, started_at, ended_at, duration_s, stop_reason "
    "FROM batches ORDER BY started_at DESC, batch_id LIMIT $1",
    "batch": "SELECT * FROM batches WHERE batch_id = $1",
    "groups": "SELECT * FROM groups WHERE batch_id = $1 ORDER BY group_number",
    "trials": "SELECT * FROM trials WHERE search_id = $1 ORDER BY trial",
    "front": "SELECT * FROM pareto_front WHERE search_id = $1 ORDER BY first_value, trial",
    "tasks": "SELECT * FROM tasks WHERE stream_id = $1 ORDER BY group_number, queued_at, task_id",
    "some_tasks": "SELECT tasks.*, attempts.status AS attempt_status, attempts.assigned_at FROM tasks "
    "LEFT JOIN attempts USING (task_id, stream_id) "
    "WHERE attempts.attempt IS NOT DISTINCT FROM tasks.attempts "
    "AND ($1::text IS NULL OR tasks.stream_id = $1) AND ($2::text IS NULL OR tasks.state = $2) "
    "ORDER BY tasks.queued_at DESC, tasks.task_id LIMIT $3",
    "last_attempts": "SELECT attempts.* FROM attempts JOIN tasks USING (task_id, stream_id) "
    "WHERE tasks.stream_id = $1 AND attempts.attempt = tasks.attempts",
    "task": "SELECT * FROM tasks WHERE task_id = $1",
    "attempts": "SELECT * FROM attempts WHERE task_id = $1 ORDER BY attempt",
    "placements": "SELECT * FROM placements WHERE task_id = $1 ORDER BY attempt, placement",
    "task_types": "SELECT * FROM task_types ORDER BY task_type",
    "task_type": "SELECT * FROM task_types WHERE task_type = $1",
    "commands": "SELECT * FROM commands WHERE stream_id = $1 ORDER BY received_at, command_id",
    "devices": "SELECT * FROM devices ORDER BY worker_id, device_id",
    "workers": "SELECT * FROM workers ORDER BY worker_id",
    "queue": "SELECT queue, count(*) AS tasks FROM tasks WHERE state = 'queued' GROUP BY 1 ORDER BY 1",
    "dead_letters": "SELECT * FROM dead_letters ORDER BY written_at DESC LIMIT $1",
    "position": "SELECT position FROM positions WHERE owner = $1 AND topic = $2 AND partition = $3",
}


class ReadModels:
    """Queries the read models; every row is a dict of JSON-like values and datetimes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def rows(self, query: str, *values: object) -> list[ViewRow]:
        """Returns the rows of a named query.

        Raises PostgresGoneError if Postgres doesn't respond, SchemaMissingError if the views don't exist.
        """

        async def fetch(connection: Connection) -> Sequence[Any]:
            return await connection.fetch(_QUERIES[query], *values)

        return [_row(record) for record in await self._database.transaction(fetch)]

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


def json_row(row: ViewRow) -> ViewRow:
    """Returns a row with its times in RFC 3339, to be written as JSON."""
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}


def _row(record: Any) -> ViewRow:
    return {name: _read(name, value) for name, value in record.items()}


def _read(name: str, value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    return json.loads(value) if name in _JSON and isinstance(value, str) else value
