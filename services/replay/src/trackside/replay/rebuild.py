"""Rebuilds all read models from offset 0 into a schema of their own and compares them with the live ones."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

from trackside.contracts.ids import new_id
from trackside.contracts.topics import Topics
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.log import Entry, Log, TopicPartition
from trackside.projections.metrics import POINTS
from trackside.projections.migrate import create_tables
from trackside.projections.owners import OWNERS
from trackside.projections.positions import put_positions, read_positions
from trackside.projections.postgres import LIVE_SCHEMA, Connection, copy, copy_new, held_cut, trial
from trackside.projections.projection import Table
from trackside.replay.compare import Difference, Side, difference
from trackside.replay.folding import LogFold, Rows
from trackside.replay.swapping import SWAP_PREFIX, Swapping, swapping, write_snapshots

COPY_ROWS = 20_000
READ_RECORDS = 20_000
SILENCE_LIMIT_S = 30.0


class LogTooShortError(Exception):
    """The log doesn't reach the position of the rows: they are of another log, or records are gone."""


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
) -> Report:
    """Folds the log from offset 0 to the positions of the live rows and compares every table.

    No row and no snapshot of the live schema is used. The new schema lives in a transaction that is
    undone, so nothing is left behind whatever happens; with `swap` it takes the live one's place, also
    if they differ, once what was written meanwhile is in it too. Raises LogTooShortError, BusyError,
    PostgresGoneError, SchemaMissingError, TransientError, and what reading a log of another release raises.
    """
    report, name = Report(), f"{SWAP_PREFIX if swap else 'trial_'}{new_id()[:12]}"
    async with swapping(dsn) if swap else nullcontext():
        async with trial(dsn, schema) as attempt:
            fresh = attempt.connection
            await create_tables(fresh, name)
            async with held_cut(dsn, schema) as live:
                folded = await _rebuilt(log, topics, live, fresh, report, progress, keeps_states=swap)
            if swap:
                await write_snapshots(fresh, folded, report.live)
                attempt.keep()
        if swap:
            report.caught_up = await Swapping(log, topics, folded, report.live, dsn).swap(schema, name)
            report.swapped = True
    return report


async def _rebuilt(
    log: Log,
    topics: Topics,
    live: Connection,
    fresh: Connection,
    report: Report,
    progress: Callable[[Progress], None],
    *,
    keeps_states: bool,
) -> LogFold:
    for name in OWNERS:
        report.live[name] = await read_positions(live, name)
    folded = LogFold(tuple(OWNERS.values()), report.live, topics, keeps_states=keeps_states)
    starts = await _starts(log, topics, folded.places())
    began = monotonic_s()
    await _fill(log, folded, starts, fresh, report, progress)
    report.fold_s = monotonic_s() - began
    for owner, positions in report.live.items():
        await put_positions(fresh, owner, positions)
        report.rebuilt[owner] = await read_positions(fresh, owner)
    report.first = await _compared(live, fresh, starts, topics)
    report.compare_s = monotonic_s() - began - report.fold_s
    return folded


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


async def _fill(
    log: Log,
    folded: LogFold,
    starts: Mapping[TopicPartition, int],
    fresh: Connection,
    report: Report,
    progress: Callable[[Progress], None],
) -> None:
    cuts = folded.places()
    missing = {place for place, cut in cuts.items() if cut > starts[place]}
    total, heard = sum(cuts[place] - starts[place] for place in missing), monotonic_s()
    reader = log.reader({place: starts[place] for place in missing})
    try:
        while missing:
            entries = await reader.read(1.0, READ_RECORDS)
            if entries:
                heard = monotonic_s()
            elif monotonic_s() - heard > SILENCE_LIMIT_S:
                places = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(missing))
                raise LogTooShortError(f"nothing more came from {places} for {SILENCE_LIMIT_S:.0f} s")
            for place, part in _by_place(entries):
                if place in missing:
                    folded.fold(place, part)
                    if part[-1].offset + 1 >= cuts[place]:
                        missing.discard(place)
            if folded.rows.waiting >= COPY_ROWS:
                await _copy(fresh, folded.rows, report)
            progress(Progress(folded.events, total))
    finally:
        await reader.close()
    await _copy(fresh, folded.rows, report)
    report.events = folded.events


def _by_place(entries: Sequence[Entry]) -> Iterable[tuple[TopicPartition, list[Entry]]]:
    """Splits entries where the partition changes; within one they are in order."""
    first = 0
    while first < len(entries):
        topic, partition = entries[first].topic, entries[first].partition
        end = first + 1
        while end < len(entries) and entries[end].partition == partition and entries[end].topic == topic:
            end += 1
        yield (topic, partition), list(entries[first:end])
        first = end


async def _copy(fresh: Connection, rows: Rows, report: Report) -> None:
    for table, waiting in rows.tables.values():
        if not waiting:
            continue
        written = await copy_new(fresh, table, waiting) if table is POINTS else len(waiting)
        if table is not POINTS:
            await copy(fresh, table.name, table.columns, waiting)
        report.rows[table.name] = report.rows.get(table.name, 0) + written
        waiting.clear()


async def _compared(
    live: Connection, fresh: Connection, starts: Mapping[TopicPartition, int], topics: Topics
) -> Difference | None:
    for table in _tables():
        condition = ""
        if table.name == "dead_letters":
            places = [place for place in starts if place[0] == topics.dead_letters.name]
            kept = " OR ".join(f"letter_partition = {p[1]} AND letter_offset >= {starts[p]}" for p in places)
            condition = kept or "false"
        if found := await difference(table, Side(live, condition), Side(fresh, condition)):
            return found
    return None


def _tables() -> list[Table]:
    return [table for owner in OWNERS.values() for table in owner.tables]
