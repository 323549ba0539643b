"""Folds partitions of the log from their starts to rows, in this process or in several.

Partitions of the events are independent of each other, so each process reads, decodes and folds some of them,
and sends its rows to this one. One connection copies them all, because the tables are in its transaction.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe

from trackside.contracts.envelope.topics import Topics
from trackside.domain.rows.table import RowValues
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.log import Entry, Log, TopicPartition
from trackside.projections.tables.owners import OWNERS
from trackside.replay.history.errors import SILENCE_LIMIT_S, PartLostError
from trackside.replay.rebuild.log_fold import LogFold, StreamStates
from trackside.telemetry.logs import configure_logs

COPY_ROWS = 20_000
READ_RECORDS = 20_000
PROGRESS_EVERY_RECORDS = 5_000
OpenLog = Callable[[], AbstractAsyncContextManager[Log]]
PendingRows = Mapping[str, list[RowValues]]
"""Rows to be copied, by the name of their table."""
WriteRows = Callable[[PendingRows], Awaitable[None]]


class LogTooShortError(Exception):
    """The log ends before the position of the rows: they are of another log, or records are gone."""


@dataclass(frozen=True, slots=True)
class FoldRange:
    """Partitions to fold: the start of each, and its end by owner of rows."""

    topics: Topics
    starts: Mapping[TopicPartition, int]
    cuts: Mapping[str, Mapping[TopicPartition, int]]
    keep_states: bool = False

    def part_of(self, places: Iterable[TopicPartition]) -> "FoldRange":
        """Returns the part of it for some partitions."""
        own = set(places)
        starts = {place: start for place, start in self.starts.items() if place in own}
        cuts = {name: {p: cut for p, cut in cuts.items() if p in own} for name, cuts in self.cuts.items()}
        return FoldRange(self.topics, starts, cuts, self.keep_states)

    def sizes(self) -> dict[TopicPartition, int]:
        """Returns how many records of each partition are to be read, where there are any."""
        found: dict[TopicPartition, int] = {}
        for cuts in self.cuts.values():
            for place, cut in cuts.items():
                if cut > self.starts[place]:
                    found[place] = max(found.get(place, 0), cut - self.starts[place])
        return found


@dataclass(frozen=True, slots=True)
class FoldResult:
    """How many records were folded; with `keep_states`, the streams as they were at each owner's cut."""

    events: int
    states: StreamStates


@dataclass(frozen=True, slots=True)
class ProcessPool:
    """Up to `max_processes`, each with a client of its own; `open_log` is pickled and called in them."""

    max_processes: int
    open_log: OpenLog
    records_each: int = 50_000
    """The least records for a process: its start takes as long as folding some 10,000."""

    def count(self, records: int) -> int:
        """Returns how many processes fold `records` records."""
        return max(1, min(self.max_processes, records // self.records_each))


async def fold_partitions(
    log: Log, fold_range: FoldRange, write_rows: WriteRows, on_progress: Callable[[int], None]
) -> FoldResult:
    """Folds a range in this process.

    `write_rows` is called with rows, `on_progress` with the number of records that have been read.

    Raises LogTooShortError, TransientError, and what reading a log of another release raises.
    """
    log_fold = LogFold(
        tuple(OWNERS.values()), fold_range.cuts, fold_range.topics, keep_states=fold_range.keep_states
    )
    ends = log_fold.places()
    missing = set(fold_range.sizes())
    reader = log.reader({place: fold_range.starts[place] for place in missing})
    last_read_s = monotonic_s()
    try:
        while missing:
            entries = await reader.read(1.0, READ_RECORDS)
            if entries:
                last_read_s = monotonic_s()
            elif monotonic_s() - last_read_s > SILENCE_LIMIT_S:
                places = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(missing))
                raise LogTooShortError(f"nothing more came from {places} for {SILENCE_LIMIT_S:.0f} s")
            for place, part in _by_partition(entries):
                if place in missing:
                    await log_fold.fold(log, place, part)
                    if part[-1].offset + 1 >= ends[place]:
                        missing.discard(place)
            if log_fold.rows.longest >= COPY_ROWS:
                await write_rows(log_fold.rows.records())
            on_progress(log_fold.events)
    finally:
        await reader.close()
    await write_rows(log_fold.rows.records())
    return FoldResult(log_fold.events, log_fold.states)


async def fold_in_processes(
    processes: ProcessPool, fold_range: FoldRange, write_rows: WriteRows, on_progress: Callable[[int], None]
) -> FoldResult:
    """Folds a range in several processes; they end with this one, whatever happens.

    Raises what one of them has raised, and PartLostError.
    """
    sizes = fold_range.sizes()
    ranges = [
        fold_range.part_of(places)
        for places in balance_partitions(sizes, processes.count(sum(sizes.values())))
    ]
    read = [0] * len(ranges)
    lock = asyncio.Lock()

    async def receive(number: int, pipe: Pipe) -> FoldResult:
        while True:
            match await asyncio.to_thread(_receive, pipe):
                case int(count):
                    read[number] = count
                    on_progress(sum(read))
                case FoldResult() as result:
                    return result
                case Exception() as error:
                    raise error
                case dict() as rows:
                    async with lock:
                        await write_rows(rows)
                case _:
                    raise PartLostError("a process that folded some partitions has died; try --processes 1")

    with ExitStack() as started:
        pipes = [_start_process(processes.open_log, part, started) for part in ranges]
        parts = await asyncio.gather(*(receive(number, pipe) for number, pipe in enumerate(pipes)))
    states: StreamStates = {}
    for part in parts:
        for owner, partitions in part.states.items():
            states.setdefault(owner, {}).update(partitions)
    return FoldResult(sum(part.events for part in parts), states)


def balance_partitions(sizes: Mapping[TopicPartition, int], count: int) -> list[list[TopicPartition]]:
    """Deals partitions out so that all have about as many records: the largest first, to who has least."""
    assigned: list[tuple[int, list[TopicPartition]]] = [(0, []) for _ in range(count)]
    for place in sorted(sizes, key=lambda place: (-sizes[place], place)):
        at = min(range(count), key=lambda number: assigned[number][0])
        records, places = assigned[at]
        assigned[at] = (records + sizes[place], [*places, place])
    return [places for _, places in assigned if places]


def _start_process(open_log: OpenLog, fold_range: FoldRange, until: ExitStack) -> Pipe:
    context = get_context("spawn")  # a forked process would inherit connections and threads
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_run_process, args=(open_log, fold_range, theirs), daemon=True)
    process.start()
    theirs.close()
    until.callback(ours.close)
    until.callback(process.join)
    until.callback(process.kill)  # first: no result is read any more
    return ours


def _receive(pipe: Pipe) -> object:
    try:
        return pipe.recv()
    except (EOFError, OSError):
        return None


def _run_process(open_log: OpenLog, fold_range: FoldRange, pipe: Pipe) -> None:
    configure_logs(level="warning")
    try:
        pipe.send(asyncio.run(_fold_range(open_log, fold_range, pipe)))
    except BrokenPipeError:
        return  # the parent has closed the pipe
    except Exception as error:  # noqa: BLE001 - raised in the parent
        pipe.send(error)


async def _fold_range(open_log: OpenLog, fold_range: FoldRange, pipe: Pipe) -> FoldResult:
    reported = 0

    async def send_rows(rows: PendingRows) -> None:
        pipe.send(rows)  # blocks while the parent is behind, so memory stays bounded

    def send_progress(count: int) -> None:
        nonlocal reported
        if count - reported >= PROGRESS_EVERY_RECORDS:
            reported = count
            pipe.send(count)

    async with open_log() as log:
        return await fold_partitions(log, fold_range, send_rows, send_progress)


def _by_partition(entries: Sequence[Entry]) -> Iterable[tuple[TopicPartition, list[Entry]]]:
    """Splits entries where the partition changes."""
    first = 0
    while first < len(entries):
        topic, partition = entries[first].topic, entries[first].partition
        end = first + 1
        while end < len(entries) and entries[end].partition == partition and entries[end].topic == topic:
            end += 1
        yield (topic, partition), list(entries[first:end])
        first = end
