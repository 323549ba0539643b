"""Writes metric points and other values, and what is counted of the rows that are new."""

from collections.abc import Collection

from trackside.domain.table import TableWrite
from trackside.projections.metrics import (
    BRIEFS,
    ITEMS,
    POINTS,
    SERIES,
    TOTALS,
    MetricRows,
    briefs_of,
    totals_of_items,
    totals_of_points,
)
from trackside.projections.postgres import Connection, copy_new, sql, upsert


async def write_metrics(connection: Connection, rows: MetricRows, known: Collection[int] = ()) -> None:
    """Writes rows; those whose key exists change nothing. `known` are numbers of series that are written."""
    # The same order in all writers, so that they can't deadlock.
    series = [rows.series[number] for number in sorted(rows.series) if number not in known]
    if series:
        await upsert(connection, TableWrite(SERIES, series))
    totals = []
    if rows.points:
        totals += totals_of_points(await copy_new(connection, POINTS, rows.points))
    if rows.items:
        totals += totals_of_items(await copy_new(connection, ITEMS, rows.items))
    if totals:
        await connection.executemany(sql("queries", "add_totals"), sorted(totals))
        await connection.executemany(sql("queries", "add_briefs"), briefs_of(totals, rows.series))


async def count_metrics(connection: Connection) -> dict[str, int]:
    """Computes totals and briefs from all points and items, in tables that have none yet.

    Returns how many rows each table has got.
    """
    found = {}
    for table, query in ((TOTALS, "count_totals"), (BRIEFS, "count_briefs")):
        status = await connection.execute(sql("queries", query))
        found[table.name] = int(status.rsplit(" ", 1)[1])
    return found
