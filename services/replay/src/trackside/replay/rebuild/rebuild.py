"""Rebuilds all read models from offset 0 in a schema of their own, and compares them with the live ones."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field

from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.topics import Topics
from trackside.domain.rows.table import Table
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.log import Log, TopicPartition
from trackside.eventlog.log_id import named_log
from trackside.projections.database.log_identity import check_log
from trackside.projections.database.positions import put_positions, read_positions
from trackside.projections.database.postgres import (
    LIVE_SCHEMA,
    Connection,
    copy,
    copy_new,
    open_repeatable_read,
    tentative_transaction,
)
from trackside.projections.tables.metric_tables import ITEMS, POINTS, UPDATER_FAILURES
from trackside.projections.tables.owners import OWNERS
from trackside.projections.writing.forgetting import forget_all_metrics, forget_copied
from trackside.projections.writing.metric_writes import count_metrics, purge
from trackside.projections.writing.migrate import create_tables
from trackside.replay.rebuild.compare import TableDifference, TableSource, first_difference
from trackside.replay.rebuild.log_fold import FORGOTTEN, PURGED, StreamStates
from trackside.replay.rebuild.parallel_fold import (
    FoldRange,
    PendingRows,
    ProcessPool,
    fold_in_processes,
    fold_partitions,
)
from trackside.replay.rebuild.schema_swap import SWAP_PREFIX, SchemaSwap, exclusive_swap, write_snapshots


@dataclass(frozen=True, slots=True)
class RebuildProgress:
    """The progress of a rebuild: records read, and their total."""

    read: int
    total: int


@dataclass(slots=True)
class RebuildReport:
    """The result of a rebuild: rows by table, positions by owner and partition, and the first difference."""

    events: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    live: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    rebuilt: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    first: TableDifference | None = None
    fold_s: float = 0.0
    compare_s: float = 0.0
    swapped: bool = False
    caught_up: int = 0

    @property
    def equal(self) -> bool:
        """Returns whether all rows and positions are the same."""
        return self.first is None and self.live == self.rebuilt

    def __str__(self) -> str:
        """Returns the line that is printed."""
        verdict = "equal" if self.equal else f"not equal: {self.first or 'positions differ'}"
        return f"replay: {self.events} events, {sum(self.rows.values())} rows, {verdict}"

    def positions(self) -> list[str]:
        """Returns one line for each owner and topic, with the sums of live and rebuilt positions."""
        lines = []
        for owner, places in self.live.items():
            for topic in sorted({topic for topic, _ in places}):
                live = sum(at for place, at in places.items() if place[0] == topic)
                rebuilt = sum(at for place, at in self.rebuilt.get(owner, {}).items() if place[0] == topic)
                lines.append(f"{owner} {topic}: live at {live}, rebuilt at {rebuilt}")
        return lines


async def rebuild(
    log: Log,
    topics: Topics,
    dsn: str,
    progress: Callable[[RebuildProgress], None] = lambda progress: None,
    *,
    swap: bool = False,
    schema: str = LIVE_SCHEMA,
    processes: ProcessPool | None = None,
) -> RebuildReport:
    """Folds the log from offset 0 to the positions of the live rows and compares every table.

    With `processes` several of them fold a long log at once, each some of its partitions.
    No row and no snapshot of the live schema is used. The new schema lives in a transaction that is
    undone, so nothing of it is left whatever happens; with `swap` it takes the live one's place, also
    if they differ, once what was written meanwhile is in it too. Raises LogTooShortError, AnotherLogError,
    BusyError, PostgresGoneError, SchemaMissingError, TransientError, what reading a log of another release
    raises, and PartLostError.
    """
    report, name = RebuildReport(), f"{SWAP_PREFIX if swap else 'trial_'}{new_id()[:12]}"
    async with exclusive_swap(dsn, schema, name) if swap else nullcontext():
        async with tentative_transaction(dsn, schema) as attempt:
            rebuilt = attempt.connection
            await create_tables(rebuilt, name)
            async with open_repeatable_read(dsn, schema) as live:
                await check_log(
                    live, schema, await named_log(log, topics, topics.metrics, topics.dead_letters)
                )
                report.live = await positions_of(live)
                fold_range = await fold_range_of(log, topics, report.live, keep_states=swap)
                states = await fold_log(log, fold_range, rebuilt, report, progress, processes)
                began_s = monotonic_s()
                report.first = await _compare(live, rebuilt, fold_range)
                report.compare_s = monotonic_s() - began_s
            if swap:
                await write_snapshots(rebuilt, topics, states, report.live)
                attempt.keep()
        if swap:
            report.caught_up = await SchemaSwap(log, topics, states, report.live, dsn).swap(schema, name)
            report.swapped = True
    return report


async def positions_of(live: Connection) -> dict[str, dict[TopicPartition, int]]:
    """Returns the positions of all rows, by owner."""
    return {name: await read_positions(live, name) for name in OWNERS}


async def fold_range_of(
    log: Log, topics: Topics, cuts: Mapping[str, Mapping[TopicPartition, int]], *, keep_states: bool = False
) -> FoldRange:
    """Returns what is to be folded: all partitions up to positions of rows."""
    places: dict[TopicPartition, int] = {}
    for positions in cuts.values():
        for place, cut in positions.items():
            places[place] = max(places.get(place, 0), cut)
    return FoldRange(topics, await _start_offsets(log, topics, places), cuts, keep_states)


async def fold_log(
    log: Log,
    fold_range: FoldRange,
    rebuilt: Connection,
    report: RebuildReport,
    progress: Callable[[RebuildProgress], None],
    processes: ProcessPool | None,
) -> StreamStates:
    """Folds a share into the fresh tables, and notes that they are as far as the live ones."""
    total = sum(fold_range.sizes().values())

    async def write_rows(pending: PendingRows) -> None:
        await _copy(rebuilt, pending, report)

    def on_progress(read: int) -> None:
        progress(RebuildProgress(read, total))

    began_s = monotonic_s()
    if processes is None or processes.count(total) < 2:
        folded = await fold_partitions(log, fold_range, write_rows, on_progress)
    else:
        folded = await fold_in_processes(processes, fold_range, write_rows, on_progress)
    for name, count in (await forget_all_metrics(rebuilt)).items():
        report.rows[name] -= count
    report.rows |= {name: count for name, count in (await count_metrics(rebuilt)).items() if count}
    report.events, report.fold_s = folded.events, monotonic_s() - began_s
    for owner, positions in report.live.items():
        await put_positions(rebuilt, owner, positions)
        report.rebuilt[owner] = await read_positions(rebuilt, owner)
    return folded.states


async def _start_offsets(
    log: Log, topics: Topics, cuts: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Returns where to begin: at 0, but dead letters are not retained for ever."""
    starts: dict[TopicPartition, int] = {}
    begins = await log.beginnings(topics.dead_letters.name)
    for topic, partition in cuts:
        starts[topic, partition] = begins.get(partition, 0) if topic == topics.dead_letters.name else 0
    return starts


_MAY_REPEAT = (POINTS, ITEMS, UPDATER_FAILURES)


def tables_of_owners() -> Iterator[Table]:
    """Yields all tables whose rows come from the log."""
    return (table for owner in OWNERS.values() for table in owner.tables)


async def _copy(rebuilt: Connection, pending: PendingRows, report: RebuildReport) -> None:
    tables = {table.name: table for table in tables_of_owners()}
    if purged := pending.get(PURGED.name):
        for name, count in (await purge(rebuilt, [job for (job,) in purged])).items():
            report.rows[name] = report.rows.get(name, 0) - count
    if forgotten := pending.get(FORGOTTEN.name):
        for name, count in (await forget_copied(rebuilt, [stream for (stream,) in forgotten])).items():
            report.rows[name] = report.rows.get(name, 0) - count
    for name, rows in pending.items():
        if name in (PURGED.name, FORGOTTEN.name):
            continue
        table = tables[name]
        if table in _MAY_REPEAT:
            rows = list(await copy_new(rebuilt, table, rows))
        else:
            await copy(rebuilt, name, table.columns, rows)
        report.rows[name] = report.rows.get(name, 0) + len(rows)


async def _compare(live: Connection, rebuilt: Connection, fold_range: FoldRange) -> TableDifference | None:
    for table in tables_of_owners():
        condition = condition_on(table, fold_range)
        if difference := await first_difference(
            table, TableSource(live, condition), TableSource(rebuilt, condition)
        ):
            return difference
    return None


def condition_on(table: Table, fold_range: FoldRange) -> str:
    """Returns which rows can be compared: of dead letters those that the log still has, else all of them."""
    if table.name != "dead_letters":
        return ""
    starts, name = fold_range.starts, fold_range.topics.dead_letters.name
    places = [place for place in starts if place[0] == name]
    retained = " OR ".join(f"letter_partition = {p[1]} AND letter_offset >= {starts[p]}" for p in places)
    return retained or "false"
