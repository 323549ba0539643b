"""Rebuilds all read models from offset 0 into a schema of their own and compares them with the live ones."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field

from trackside.contracts.ids import new_id
from trackside.contracts.topics import Topics
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.log import Log, TopicPartition
from trackside.projections.metrics import POINTS
from trackside.projections.migrate import create_tables
from trackside.projections.owners import OWNERS
from trackside.projections.positions import put_positions, read_positions
from trackside.projections.postgres import (
    LIVE_SCHEMA,
    Connection,
    copy,
    copy_new,
    open_repeatable_read,
    tentative_transaction,
)
from trackside.replay.rebuild.compare import Difference, Side, difference
from trackside.replay.rebuild.fill import LogTooShortError, Processes, Share, Waiting, fill, fill_in_processes
from trackside.replay.rebuild.fold import States
from trackside.replay.rebuild.swap import SWAP_PREFIX, Swapping, swapping, write_snapshots

TABLES = {table.name: table for owner in OWNERS.values() for table in owner.tables}


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a rebuild is: records read, of all that it will read."""

    read: int
    total: int


@dataclass(slots=True)
class Report:
    """What a rebuild found; `positions` are those of the live rows, by owner and partition."""

    events: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    live: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    rebuilt: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    first: Difference | None = None
    fold_s: float = 0.0
    compare_s: float = 0.0
    swapped: bool = False
    caught_up: int = 0

    @property
    def equal(self) -> bool:
        """Says whether all rows and positions are the same on both sides."""
        return self.first is None and self.live == self.rebuilt

    def __str__(self) -> str:
        """Gives the line that people see."""
        verdict = "equal" if self.equal else f"not equal: {self.first or 'positions differ'}"
        return f"replay: {self.events} events, {sum(self.rows.values())} rows, {verdict}"

    def positions(self) -> list[str]:
        """Gives one line an owner and topic, with the sums of both sides' positions."""
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
    progress: Callable[[Progress], None] = lambda progress: None,
    *,
    swap: bool = False,
    schema: str = LIVE_SCHEMA,
    processes: Processes | None = None,
) -> Report:
    """Folds the log from offset 0 to the positions of the live rows and compares every table.

    With `processes` several of them fold a long log at once, each some of its partitions.
    No row and no snapshot of the live schema is used. The new schema lives in a transaction that is
    undone, so nothing is left behind whatever happens; with `swap` it takes the live one's place, also
    if they differ, once what was written meanwhile is in it too. Raises LogTooShortError, BusyError,
    PostgresGoneError, SchemaMissingError, TransientError, what reading a log of another release raises, and
    PartLostError.
    """
    report, name = Report(), f"{SWAP_PREFIX if swap else 'trial_'}{new_id()[:12]}"
    async with swapping(dsn) if swap else nullcontext():
        async with tentative_transaction(dsn, schema) as attempt:
            fresh = attempt.connection
            await create_tables(fresh, name)
            async with open_repeatable_read(dsn, schema) as live:
                share = await _share(log, topics, live, report, keeps_states=swap)
                states = await _filled(log, share, fresh, report, progress, processes)
                began = monotonic_s()
                report.first = await _compared(live, fresh, share)
                report.compare_s = monotonic_s() - began
            if swap:
                await write_snapshots(fresh, topics, states, report.live)
                attempt.keep()
        if swap:
            report.caught_up = await Swapping(log, topics, states, report.live, dsn).swap(schema, name)
            report.swapped = True
    return report


async def _share(log: Log, topics: Topics, live: Connection, report: Report, *, keeps_states: bool) -> Share:
    """Gives all that is to be folded: up to the live rows' positions."""
    for name in OWNERS:
        report.live[name] = await read_positions(live, name)
    places: dict[TopicPartition, int] = {}
    for cuts in report.live.values():
        for place, cut in cuts.items():
            places[place] = max(places.get(place, 0), cut)
    return Share(topics, await _starts(log, topics, places), report.live, keeps_states)


async def _filled(
    log: Log,
    share: Share,
    fresh: Connection,
    report: Report,
    progress: Callable[[Progress], None],
    processes: Processes | None,
) -> States:
    """Folds a share into the fresh tables, and notes that they are as far as the live ones."""
    total = sum(share.sizes().values())

    async def take(waiting: Waiting) -> None:
        await _copy(fresh, waiting, report)

    def told(read: int) -> None:
        progress(Progress(read, total))

    began = monotonic_s()
    if processes is None or processes.count(total) < 2:
        folded = await fill(log, share, take, told)
    else:
        folded = await fill_in_processes(processes, share, take, told)
    report.events, report.fold_s = folded.events, monotonic_s() - began
    for owner, positions in report.live.items():
        await put_positions(fresh, owner, positions)
        report.rebuilt[owner] = await read_positions(fresh, owner)
    return folded.states


async def _starts(log: Log, topics: Topics, cuts: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Gives where to begin: at 0, but dead letters are not kept for ever. Raises LogTooShortError."""
    starts: dict[TopicPartition, int] = {}
    begins = await log.beginnings(topics.dead_letters.name)
    for topic in sorted({topic for topic, _ in cuts}):
        ends = await log.ends(topic)
        for place, cut in cuts.items():
            if place[0] != topic:
                continue
            if ends.get(place[1], 0) < cut:
                raise LogTooShortError(
                    f"{topic}-{place[1]} ends at {ends.get(place[1], 0)}, but rows were written up to {cut}: "
                    "they are not of this log"
                )
            starts[place] = begins.get(place[1], 0) if topic == topics.dead_letters.name else 0
    return starts


async def _copy(fresh: Connection, waiting: Waiting, report: Report) -> None:
    for name, rows in waiting.items():
        table = TABLES[name]
        written = await copy_new(fresh, table, rows) if table is POINTS else len(rows)
        if table is not POINTS:
            await copy(fresh, name, table.columns, rows)
        report.rows[name] = report.rows.get(name, 0) + written


async def _compared(live: Connection, fresh: Connection, share: Share) -> Difference | None:
    for table in TABLES.values():
        condition = ""
        if table.name == "dead_letters":
            starts, name = share.starts, share.topics.dead_letters.name
            places = [place for place in starts if place[0] == name]
            kept = " OR ".join(f"letter_partition = {p[1]} AND letter_offset >= {starts[p]}" for p in places)
            condition = kept or "false"
        if found := await difference(table, Side(live, condition), Side(fresh, condition)):
            return found
    return None
