"""Makes the read models of a backup with this release: how many rows each table has, and their digest.

A backup has no read models to compare them with. Two releases are compared by what each makes of it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.topics import Topics
from trackside.eventlog.log import Log
from trackside.projections.database.postgres import LIVE_SCHEMA, tentative_transaction
from trackside.projections.tables.owners import OWNERS
from trackside.projections.writing.migrate import create_tables
from trackside.replay.rebuild.compare import TableSource, table_digest
from trackside.replay.rebuild.parallel_fold import ProcessPool
from trackside.replay.rebuild.rebuild import (
    RebuildProgress,
    RebuildReport,
    fold_log,
    fold_range_of,
    tables_of_owners,
)


@dataclass(frozen=True, slots=True)
class TableContent:
    """What is in a table: the number of its rows, their sha256, and the columns that this is of."""

    table: str
    rows: int
    sha256: str
    columns: tuple[str, ...]


@dataclass(slots=True)
class BackupCheckReport:
    """The result of a check: what was folded, and the content of each table."""

    fold: RebuildReport
    tables: list[TableContent] = field(default_factory=list)


async def check_backup(
    log: Log,
    topics: Topics,
    dsn: str,
    progress: Callable[[RebuildProgress], None] = lambda progress: None,
    *,
    processes: ProcessPool | None = None,
) -> BackupCheckReport:
    """Folds a whole log, into tables in a database of any content that are undone at the end.

    Raises what `rebuild` raises, except what is about live rows.
    """
    report = BackupCheckReport(RebuildReport())
    async with tentative_transaction(dsn, LIVE_SCHEMA) as attempt:
        rebuilt = attempt.connection
        await create_tables(rebuilt, f"trial_{new_id()[:12]}")
        for owner in OWNERS.values():
            names = [topic.name for topic in owner.topics(topics)]
            ends = await log.ends_of(names)
            report.fold.live[owner.name] = {
                (name, partition): end for name in names for partition, end in ends[name].items()
            }
        fold_range = await fold_range_of(log, topics, report.fold.live)
        await fold_log(log, fold_range, rebuilt, report.fold, progress, processes)
        for table in sorted(tables_of_owners(), key=lambda each: each.name):
            digest = await table_digest(table, TableSource(rebuilt))
            rows = report.fold.rows.get(table.name, 0)
            report.tables.append(TableContent(table.name, rows, digest.hex(), table.columns))
    return report
