"""Writes metric points and other values, and what is counted of the rows that are new."""

from collections.abc import Collection, Sequence

from trackside.domain.rows.table import RowValues, TableWrite
from trackside.projections.database.postgres import Connection, copy_new, sql
from trackside.projections.database.upserts import upsert
from trackside.projections.tables.metric_tables import BRIEFS, ITEMS, POINTS, SERIES, TOTALS, UPDATER_FAILURES
from trackside.projections.tables.metrics import MetricRows, briefs_of, totals_of_items, totals_of_points


async def write_metrics(connection: Connection, rows: MetricRows, known: Collection[int] = ()) -> None:
    """Writes rows; those whose key exists change nothing. `known` are numbers of series that are written.

    Nothing is written of streams that were forgotten.
    """
    await connection.execute("LOCK TABLE forgotten_streams IN SHARE MODE")  # keeps `forget_rows` out
    streams = list({row[1] for row in rows.series.values()})
    forgotten = await connection.fetch(sql("queries", "forgotten_of"), streams)
    if forgotten:
        rows.leave_out({row[0] for row in forgotten})
    if rows.purged:
        await purge(connection, rows.purged)
    # The same order in all writers, so that they can't deadlock.
    series = [rows.series[number] for number in sorted(rows.series) if number not in known]
    if series:
        await upsert(connection, TableWrite(SERIES, series))
    totals: list[RowValues] = []
    if rows.points:
        totals += totals_of_points(rows, await copy_new(connection, POINTS, rows.points))
    if rows.items:
        totals += totals_of_items(rows, await copy_new(connection, ITEMS, rows.items))
    if rows.failures:
        await copy_new(connection, UPDATER_FAILURES, rows.failures)
    if totals:
        await _add_totals(connection, totals)
        await connection.executemany(sql("queries", "add_briefs"), briefs_of(totals, rows.series))


async def _add_totals(connection: Connection, totals: Sequence[RowValues]) -> None:
    """Adds to the totals of series; of all attempts that have reported a tag, the newest stays marked."""
    numbers = [row[0] for row in totals]
    counted = {row[0] for row in await connection.fetch(sql("queries", "counted_series"), numbers)}
    await connection.execute(sql("queries", "add_totals"), *zip(*totals, strict=True))
    if first := [number for number in numbers if number not in counted]:
        await connection.execute(sql("queries", "mark_older"), first)


async def purge(connection: Connection, jobs: Sequence[str]) -> dict[str, int]:
    """Removes all rows of the values of jobs; returns how many of each table."""
    numbers = [row[0] for row in await connection.fetch(sql("queries", "series_of_jobs"), jobs)]
    removed = {}
    for table in (POINTS, ITEMS, TOTALS, SERIES):
        statement = f"DELETE FROM {table.name} WHERE series = ANY($1)"  # noqa: S608 - our names
        removed[table.name] = count_of(await connection.execute(statement, numbers))
    of_briefs = f"DELETE FROM {BRIEFS.name} WHERE job_id = ANY($1)"  # noqa: S608 - our names
    removed[BRIEFS.name] = count_of(await connection.execute(of_briefs, jobs))
    return {name: count for name, count in removed.items() if count}


async def purge_points(connection: Connection, jobs: Sequence[str], limit: int) -> bool:
    """Removes `limit` points of jobs at most; returns whether there were so many."""
    removed = count_of(await connection.execute(sql("queries", "purge_points"), list(jobs), limit))
    return removed >= limit


async def count_metrics(connection: Connection) -> dict[str, int]:
    """Computes totals and briefs from all points and items, in tables that have none yet.

    Returns how many rows each table has got.
    """
    queries = ((TOTALS, "count_totals"), (BRIEFS, "count_briefs"))
    return {table.name: count_of(await connection.execute(sql("queries", query))) for table, query in queries}


def count_of(status: str) -> int:
    """Returns how many rows a statement was about, which its status says."""
    return int(status.rsplit(" ", 1)[1])
