"""Compares what this release makes of the log with read models that another release made: what would change.

It folds the whole log as a rebuild does, into tables that are undone at the end. Columns that only one of the
two releases has are named, and the others are compared.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.topics import Topics
from trackside.domain.rows.table import Table
from trackside.eventlog.log import Log
from trackside.eventlog.log_id import named_log
from trackside.projections.database.log_identity import check_log
from trackside.projections.database.postgres import (
    LIVE_SCHEMA,
    Connection,
    open_repeatable_read,
    sql,
    tentative_transaction,
)
from trackside.projections.writing.definitions import NewerSchemaError, definitions
from trackside.projections.writing.migrate import create_tables
from trackside.replay.rebuild.compare import RowDifferences, TableSource, row_differences
from trackside.replay.rebuild.parallel_fold import ProcessPool
from trackside.replay.rebuild.rebuild import (
    RebuildProgress,
    RebuildReport,
    condition_on,
    fold_log,
    fold_range_of,
    positions_of,
    tables_of_owners,
)


@dataclass(frozen=True, slots=True)
class TableChange:
    """What would change in a table: rows, and columns that only one of the two releases has."""

    table: str
    rows: RowDifferences
    new_columns: tuple[str, ...] = ()
    dropped_columns: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Returns whether something would."""
        return bool(self.rows.count or self.new_columns or self.dropped_columns)

    def __str__(self) -> str:
        """Returns it as one line."""
        parts = [f"new columns {', '.join(self.new_columns)}"] * bool(self.new_columns)
        parts += [f"without columns {', '.join(self.dropped_columns)}"] * bool(self.dropped_columns)
        counts = (("changed", self.rows.changed), ("added", self.rows.added), ("removed", self.rows.removed))
        parts += [f"{count} rows {what}" for what, count in counts if count]
        first = f"; first: {self.rows.first}" if self.rows.first is not None else ""
        return f"table {self.table}: {', '.join(parts)}{first}"


@dataclass(slots=True)
class UpgradeReport:
    """The result of a check: tables that would change, and owners whose tables are made again at a start."""

    fold: RebuildReport
    changes: list[TableChange] = field(default_factory=list)
    made_again: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """Returns the last line that is printed."""
        rows = sum(change.rows.count for change in self.changes)
        said = (
            f"{rows} rows in {len(self.changes)} tables would change" if self.changes else "nothing changes"
        )
        return f"upgrade: {self.fold.events} events, {sum(self.fold.rows.values())} rows; {said}"


async def check_upgrade(
    log: Log,
    topics: Topics,
    dsn: str,
    progress: Callable[[RebuildProgress], None] = lambda progress: None,
    *,
    schema: str = LIVE_SCHEMA,
    processes: ProcessPool | None = None,
) -> UpgradeReport:
    """Folds the log with this release up to the positions of the live rows; changes nothing.

    Raises what `rebuild` raises, and NewerSchemaError if a later release has made the read models.
    """
    report = UpgradeReport(RebuildReport())
    async with tentative_transaction(dsn, schema) as attempt:
        rebuilt = attempt.connection
        await create_tables(rebuilt, f"trial_{new_id()[:12]}")
        async with open_repeatable_read(dsn, schema) as live:
            await check_log(live, schema, await named_log(log, topics, topics.metrics, topics.dead_letters))
            report.made_again = await _made_again(live)
            report.fold.live = await positions_of(live)
            fold_range = await fold_range_of(log, topics, report.fold.live)
            await fold_log(log, fold_range, rebuilt, report.fold, progress, processes)
            for table in tables_of_owners():
                condition = condition_on(table, fold_range)
                change = await _change(table, live, rebuilt, condition)
                if change:
                    report.changes.append(change)
    return report


async def _made_again(live: Connection) -> list[str]:
    """Returns the owners whose tables have another definition in this release; raises NewerSchemaError."""
    known = {row["owner"]: row for row in await live.fetch(sql("queries", "definitions"))}
    for each in definitions():
        if each.owner in known and known[each.owner]["generation"] > each.generation:
            raise NewerSchemaError(
                f"the {each.owner}'s tables have generation {known[each.owner]['generation']}, this release "
                f"knows {each.generation}: check with a release that is not older than the one that runs"
            )
    return [
        each.owner
        for each in definitions()
        if each.owner not in known or known[each.owner]["digest"] != each.digest
    ]


async def _change(table: Table, live: Connection, rebuilt: Connection, condition: str) -> TableChange:
    there, here = await _columns(live, table.name), await _columns(rebuilt, table.name)
    new = tuple(name for name in here if name not in there)
    dropped = tuple(name for name in there if name not in here)
    if any(name in new for name in table.key):  # the rows of the two releases have no key that is in both
        added = await rebuilt.fetchval(f"SELECT count(*) FROM {table.name}")  # noqa: S608 - our names
        removed = await live.fetchval(f"SELECT count(*) FROM {table.name}") if there else 0  # noqa: S608
        return TableChange(table.name, RowDifferences(added=added, removed=removed), new, dropped)
    shared = replace(table, columns=tuple(name for name in table.columns if name in there))
    rows = await row_differences(shared, TableSource(live, condition), TableSource(rebuilt, condition))
    return TableChange(table.name, rows, new, dropped)


async def _columns(connection: Connection, table: str) -> Sequence[str]:
    """Returns the columns of a table in the connection's schema; none if it is not there."""
    rows = await connection.fetch(sql("queries", "columns_of"), table)
    return [row[0] for row in rows]
