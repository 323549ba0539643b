"""Reads partitions of the log from their starts and folds them to rows: here, or in processes of their own.

Partitions of the events have nothing to do with each other, so each process reads, decodes and folds some of
them, and hands its rows over. Copying them is left to one connection, in whose transaction the tables are.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe

from trackside.contracts.topics import Topics
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.log import Entry, Log, TopicPartition
from trackside.projections.owners import OWNERS
from trackside.projections.projection import RowValues
from trackside.replay.history.errors import SILENCE_LIMIT_S, PartLostError
from trackside.replay.rebuild.fold import LogFold, States
from trackside.telemetry.logs import configure_logs

COPY_ROWS = 20_000
READ_RECORDS = 20_000
TOLD_EVERY = 5_000
OpenLog = Callable[[], AbstractAsyncContextManager[Log]]
Waiting = Mapping[str, list[RowValues]]
"""Rows to be copied, by the name of their table."""
Take = Callable[[Waiting], Awaitable[None]]


class LogTooShortError(Exception):
    """The log doesn't reach the position of the rows: they are of another log, or records are gone."""


@dataclass(frozen=True, slots=True)
class Share:
    """Partitions to fold: where each begins, and up to where, by owner."""

    topics: Topics
    starts: Mapping[TopicPartition, int]
    cuts: Mapping[str, Mapping[TopicPartition, int]]
    keeps_states: bool = False

    def of(self, places: Iterable[TopicPartition]) -> "Share":
        """Gives the part of it that is about some partitions."""
        own = set(places)
        starts = {place: start for place, start in self.starts.items() if place in own}
        cuts = {name: {p: cut for p, cut in cuts.items() if p in own} for name, cuts in self.cuts.items()}
        return Share(self.topics, starts, cuts, self.keeps_states)

    def sizes(self) -> dict[TopicPartition, int]:
        """Gives how many records of each partition are to be read, where there are any."""
        found: dict[TopicPartition, int] = {}
        for cuts in self.cuts.values():
            for place, cut in cuts.items():
                if cut > self.starts[place]:
                    found[place] = max(found.get(place, 0), cut - self.starts[place])
        return found


@dataclass(frozen=True, slots=True)
class Folded:
    """How many records were folded; with `keeps_states`, the streams as they were at each owner's cut."""

    events: int
    states: States


@dataclass(frozen=True, slots=True)
class Processes:
    """At most so many processes, each with a log of its own; `open_log` is pickled and called in them."""

    at_most: int
    open_log: OpenLog
    records_each: int = 50_000
    """What a process is worth its start for: it takes as long as folding some 10,000 records."""

    def count(self, records: int) -> int:
        """Gives how many fold that many records."""
        return max(1, min(self.at_most, records // self.records_each))


async def fill(log: Log, share: Share, take: Take, told: Callable[[int], None]) -> Folded:
    """Folds a share in this process; `take` is given the rows, `told` how many records have been read.

    Raises LogTooShortError, TransientError, and what reading a log of another release raises.
    """
    folded = LogFold(tuple(OWNERS.values()), share.cuts, share.topics, keeps_states=share.keeps_states)
    ends = folded.places()
    missing = set(share.sizes())
    reader = log.reader({place: share.starts[place] for place in missing})
    heard = monotonic_s()
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
                    if part[-1].offset + 1 >= ends[place]:
                        missing.discard(place)
            if folded.rows.waiting >= COPY_ROWS:
                await take(folded.rows.taken())
            told(folded.events)
    finally:
        await reader.close()
    await take(folded.rows.taken())
    return Folded(folded.events, folded.states)


async def fill_in_processes(
    processes: Processes, share: Share, take: Take, told: Callable[[int], None]
) -> Folded:
    """Does the same in several processes at once; they end with this one, whatever happens.

    Raises what one of them has raised, and PartLostError.
    """
    sizes = share.sizes()
    shares = [share.of(places) for places in packed(sizes, processes.count(sum(sizes.values())))]
    read = [0] * len(shares)
    taking = asyncio.Lock()

    async def follow(number: int, pipe: Pipe) -> Folded:
        while True:
            match await asyncio.to_thread(_received, pipe):
                case int(count):
                    read[number] = count
                    told(sum(read))
                case Folded() as folded:
                    return folded
                case Exception() as error:
                    raise error
                case dict() as rows:
                    async with taking:
                        await take(rows)
                case _:
                    raise PartLostError("a process that folded a part of it has died; try --processes 1")

    with ExitStack() as started:
        pipes = [_started(processes.open_log, each, started) for each in shares]
        parts = await asyncio.gather(*(follow(number, pipe) for number, pipe in enumerate(pipes)))
    states: States = {}
    for part in parts:
        for owner, partitions in part.states.items():
            states.setdefault(owner, {}).update(partitions)
    return Folded(sum(part.events for part in parts), states)


def packed(sizes: Mapping[TopicPartition, int], count: int) -> list[list[TopicPartition]]:
    """Deals partitions out so that all have about as many records: the largest first, to who has least."""
    dealt: list[tuple[int, list[TopicPartition]]] = [(0, []) for _ in range(count)]
    for place in sorted(sizes, key=lambda place: (-sizes[place], place)):
        at = min(range(count), key=lambda number: dealt[number][0])
        records, places = dealt[at]
        dealt[at] = (records + sizes[place], [*places, place])
    return [places for _, places in dealt if places]


def _started(open_log: OpenLog, share: Share, until: ExitStack) -> Pipe:
    context = get_context("spawn")  # a fork would have this one's connections and threads
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(open_log, share, theirs), daemon=True)
    process.start()
    theirs.close()
    until.callback(ours.close)
    until.callback(process.join)
    until.callback(process.kill)  # first: nobody hears it any more
    return ours


def _received(pipe: Pipe) -> object:
    try:
        return pipe.recv()
    except (EOFError, OSError):
        return None


def _run(open_log: OpenLog, share: Share, pipe: Pipe) -> None:
    configure_logs(level="warning")
    try:
        pipe.send(asyncio.run(_folded(open_log, share, pipe)))
    except BrokenPipeError:
        return  # nobody wants it any more
    except Exception as error:  # noqa: BLE001 - whatever it is, it is raised where somebody waits for it
        pipe.send(error)


async def _folded(open_log: OpenLog, share: Share, pipe: Pipe) -> Folded:
    said = 0

    async def give(rows: Waiting) -> None:
        pipe.send(rows)  # waits while the reader is behind: so memory stays flat

    def tell(count: int) -> None:
        nonlocal said
        if count - said >= TOLD_EVERY:
            said = count
            pipe.send(count)

    async with open_log() as log:
        return await fill(log, share, give, tell)


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
