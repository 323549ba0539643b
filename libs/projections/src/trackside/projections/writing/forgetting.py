"""Removes what Postgres has of streams that were forgotten: rows, snapshots, and in the end their keys."""

from collections.abc import Collection, Mapping

from trackside.eventlog.log import TopicPartition
from trackside.projections.database.postgres import Connection
from trackside.projections.tables.metric_tables import BRIEFS
from trackside.projections.tables.owners import DISPATCHER, OWNERS, Owner
from trackside.projections.writing.metric_writes import count_of, purge
from trackside.projections.writing.stream_keys import delete_keys


async def forget_rows(
    connection: Connection, owner: Owner, forgotten: Mapping[TopicPartition, Collection[str]]
) -> None:
    """Removes all rows of an owner about streams; `forgotten` has them by their place in the log.

    With the dispatcher's rows, what belongs to no service of the events goes: values of tasks, and the keys.
    """
    streams = sorted({stream for of_place in forgotten.values() for stream in of_place})
    for table, column in owner.stream_columns.items():
        await connection.execute(f"DELETE FROM {table} WHERE {column} = ANY($1)", streams)  # noqa: S608
    if owner.keeps_snapshots:
        await connection.execute("DELETE FROM snapshots WHERE stream_id = ANY($1)", streams)
    if owner.name != DISPATCHER:
        return
    # Keeps out those who write values, until the streams are in this table: they read it first.
    await connection.execute("LOCK TABLE forgotten_streams IN ROW EXCLUSIVE MODE")
    await forget_metrics(connection, streams)
    await delete_keys(connection, streams)


async def forget_copied(connection: Connection, streams: Collection[str]) -> dict[str, int]:
    """Removes the rows of streams in tables of events; returns how many of each table."""
    removed = {}
    for owner in OWNERS.values():
        for table, column in owner.stream_columns.items():
            statement = f"DELETE FROM {table} WHERE {column} = ANY($1)"  # noqa: S608
            removed[table] = count_of(await connection.execute(statement, list(streams)))
    return {name: count for name, count in removed.items() if count}


async def forget_metrics(connection: Connection, streams: Collection[str]) -> dict[str, int]:
    """Removes the values of tasks of streams; returns how many rows of each table."""
    statement = f"SELECT job_id FROM {BRIEFS.name} WHERE stream_id = ANY($1)"  # noqa: S608
    series = "SELECT DISTINCT task_id FROM metric_series WHERE stream_id = ANY($1)"
    found = await connection.fetch(f"{statement} UNION {series}", list(streams))
    jobs = [row[0] for row in found]
    return await purge(connection, jobs) if jobs else {}


async def forget_all_metrics(connection: Connection) -> dict[str, int]:
    """Removes the values of tasks of all streams that were forgotten, as a rebuild does at its end."""
    rows = await connection.fetch("SELECT stream_id FROM forgotten_streams")
    return await forget_metrics(connection, [row[0] for row in rows]) if rows else {}
