"""Each reader keeps nothing of what comes to a parked stream, and reads it again when that goes on."""

import asyncio
import gc
import os
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.polling import poll_until
from tests.unit.dispatcher.harness import add_worker, dispatcher
from tests.unit.domain.given import STREAM
from tests.unit.replay.given import TOPICS
from tests.unit.replay.parked_log import EVENTS, PARTITION, long_log
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Record
from trackside.dispatcher.service import Dispatcher
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import Stream, shrink
from trackside.eventlog.errors import OffsetGoneError
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.log import Entry, TopicPartition
from trackside.eventlog.memory import MemoryLog, MemoryReader
from trackside.eventlog.reactor.reactor import Reactor
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.eventlog.reactor.serving import from_start
from trackside.eventlog.released_streams import follow_released, read_again
from trackside.projections.past.reader import PastReader
from trackside.projections.past.store import FolderPastStore
from trackside.projections.past.writer import write_past
from trackside.projections.tables.owners import OWNERS
from trackside.projections.writing.projection_state import ProjectionState
from trackside.replay.find_stream import find_stream
from trackside.replay.garbage.scan import HolderScan
from trackside.replay.history.point_in_time import NOW, PointInTime
from trackside.replay.history.recorded_stream import state_at
from trackside.replay.rebuild.parallel_fold import FoldRange, fold_partitions
from trackside.scheduler.service import Scheduler
from trackside.scheduler.settings import SchedulerSettings
from trackside.sdk import Client
from trackside.verify.log import verify_topics

MANY = int(os.environ.get("TRACKSIDE_TEST_PARKED_RECORDS", "50000"))
MOST_KEPT = 1_000_000
"""How many bytes a reader may take for a parked stream with a million records since."""
Read = Callable[[MemoryLog, Path], Awaitable[object]]


async def as_a_service(log: MemoryLog, folder: Path) -> Stream:
    """Reads as dispatcher, scheduler, summary-indexer and verify-log do: all streams of partitions."""
    streams, end = Streams(AGGREGATES), (await log.ends(EVENTS[0]))[PARTITION]
    reader = log.reader({EVENTS: 0})
    while streams.positions.get(PARTITION, 0) < end:
        for entry in await reader.read(1.0, 1_000):
            record = decode(entry)
            assert record is not None
            shrink(streams.fold(record)[0])
        await read_again(log, EVENTS[0], streams, ignore)
    return streams.by_id[STREAM]


async def read_to(streams: Streams, end: int) -> None:
    """Waits until a service has folded a partition, and no stream of it waits to be read again."""

    async def is_read() -> bool:
        return streams.positions.get(PARTITION, 0) >= end and not streams.released

    await poll_until(is_read, within_s=600)


async def as_the_dispatcher(log: MemoryLog, folder: Path) -> Stream:
    """Reads with all that the dispatcher keeps; what is decided since is in the log, too."""
    end = (await log.ends(EVENTS[0]))[PARTITION]
    await add_worker(log)
    async with dispatcher(log, kind=Dispatcher) as made:
        streams: Streams = made._streams
        await read_to(streams, end)
        return streams.by_id[STREAM]


async def as_the_scheduler(log: MemoryLog, folder: Path) -> Stream:
    end = (await log.ends(EVENTS[0]))[PARTITION]
    await add_worker(log)
    service, streams = ServiceContext.on(log, TOPICS, "scheduler"), Streams(AGGREGATES)
    made = Scheduler(service, streams, SchedulerSettings.model_construct())
    starts = await from_start(log, TOPICS.events) | await from_start(log, TOPICS.fleet)
    partitions = {topic.name: topic.partitions for topic in (TOPICS.events, TOPICS.fleet)}
    reactor = Reactor(service, made, starts=starts, raw={}, partitions=partitions)
    service.background.spawn(made.read_released(reactor.wake))
    running = asyncio.create_task(reactor.run())
    try:
        await read_to(streams, end)
    finally:
        service.stop.set()
        await running
    return streams.by_id[STREAM]


def ignore(stream: Stream, outcome: Outcome, record: Record) -> None:
    """Does nothing."""


async def for_rows(log: MemoryLog, owner: str) -> object:
    end = (await log.ends(EVENTS[0]))[PARTITION]
    state = ProjectionState(OWNERS[owner], TOPICS, {EVENTS: 0})
    reader = log.reader({EVENTS: 0})
    while state.folded.get(EVENTS, 0) < end:
        state.fold(await reader.read(1.0, 2_000))
        await state.read_again(log)
        taken = state.changes.take(state.folded)
        state.mark_written(taken, {})
    return state.streams.by_id[STREAM]


async def for_rows_of_the_dispatcher(log: MemoryLog, folder: Path) -> object:
    return await for_rows(log, "dispatcher")


async def for_rows_of_the_scheduler(log: MemoryLog, folder: Path) -> object:
    return await for_rows(log, "scheduler")


async def alone(log: MemoryLog, folder: Path) -> object:
    """Reads as the console and `replay` do."""
    return (await state_at(await find_stream(log, TOPICS, STREAM), NOW)).stream


async def for_snapshots_of_the_past(log: MemoryLog, folder: Path) -> object:
    end = (await log.ends(EVENTS[0]))[PARTITION]
    store = FolderPastStore(folder / f"past-{end}")
    await write_past(log, TOPICS.events, PARTITION, store, 2**30, end)
    recorded = await find_stream(log, TOPICS, STREAM, PastReader(store))
    return (await state_at(recorded, NOW)).stream


async def by_the_client(log: MemoryLog, folder: Path) -> object:
    client = Client("", log=log)
    client._topics = TOPICS
    return await client.state(STREAM)


async def to_rebuild(log: MemoryLog, folder: Path) -> object:
    end = (await log.ends(EVENTS[0]))[PARTITION]
    cuts = {name: {EVENTS: end} for name in ("dispatcher", "scheduler")}

    async def write(rows: object) -> None:
        """Drops the rows."""

    return await fold_partitions(log, FoldRange(TOPICS, {EVENTS: 0}, cuts), write, lambda _: None)


async def to_verify(log: MemoryLog, folder: Path) -> object:
    return await verify_topics(log, TOPICS)


async def for_artifacts(log: MemoryLog, folder: Path) -> object:
    holders = await HolderScan(log, TOPICS, 0).catch_up()
    return holders.streams.by_id[STREAM]


SERVICES: list[Read] = [as_the_dispatcher, as_the_scheduler]
STATES: list[Read] = [
    as_a_service,
    for_rows_of_the_dispatcher,
    for_rows_of_the_scheduler,
    alone,
    for_snapshots_of_the_past,
    by_the_client,
    for_artifacts,
]


@pytest.mark.parametrize("read", STATES, ids=lambda read: read.__name__)
async def test_each_reader_has_the_state_as_if_nothing_had_parked_the_stream(
    read: Read, tmp_path: Path
) -> None:
    """But for the command, in which the log is another one."""
    never = await read(await long_log(1_234, parks=False), tmp_path / "never")
    parked = await read(await long_log(1_234), tmp_path)
    assert isinstance(parked, Stream) and isinstance(never, Stream)
    assert (parked.root, parked.tasks, parked.placed) == (never.root, never.tasks, never.placed)
    assert [each.needs for each in parked.skipped] == ["a newer release: type trackside.trial-cloned.v1"]
    assert not parked.waits


@pytest.mark.parametrize("read", SERVICES, ids=lambda read: read.__name__)
async def test_a_service_reads_a_stream_again_while_it_runs(read: Read, tmp_path: Path) -> None:
    stream = await read(await long_log(1_234), tmp_path)
    assert isinstance(stream, Stream)
    assert (stream.waits, stream.placed, len(stream.skipped)) == (False, {}, 1)
    assert stream.root.trials[0].suggested_at == 3


async def test_verify_log_checks_what_waited_and_finds_nothing_else(tmp_path: Path) -> None:
    report = await verify_topics(await long_log(1_234), TOPICS)
    never = await verify_topics(await long_log(1_234, parks=False), TOPICS)
    assert report.parked == []
    assert {each.invariant for each in report.findings} <= {each.invariant for each in never.findings}
    waiting = await verify_topics(await long_log(10, goes_on=False), TOPICS)
    place = f"{PARTITION}/7"
    assert waiting.parked == [f"digits-1 needs a newer release: type trackside.trial-cloned.v1 at {place}"]


async def test_the_moments_before_and_after_are_those_of_the_log(tmp_path: Path) -> None:
    log = await long_log(40)
    end = (await log.ends(EVENTS[0]))[PARTITION]
    recorded = await find_stream(log, TOPICS, STREAM)
    waits = [(await state_at(recorded, PointInTime(offset=at))).stream.waits for at in range(end)]
    assert waits == [*[False] * 7, *[True] * 43, *[False] * 3]


class Expired(MemoryReader):
    """A reader of a log that has lost its first records."""

    async def read(self, max_wait_s: float, max_records: int = 10_000) -> list[Entry]:
        raise OffsetGoneError("trackside.events-0 starts at 40, need 8")


async def test_a_log_without_the_records_says_which_stream_can_not_go_on(tmp_path: Path) -> None:
    log = await long_log(40)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log, "reader", lambda starts, gather_s=0.0: _reader(log, dict(starts)))
        with pytest.raises(
            OffsetGoneError, match=r"^digits-1 can't continue: .* from trackside\.events-0@8 on"
        ):
            await as_a_service(log, tmp_path)


async def test_a_service_leaves_a_stream_whose_records_are_gone_and_continues(tmp_path: Path) -> None:
    log, streams = await long_log(40), Streams(AGGREGATES)
    with pytest.MonkeyPatch.context() as patch, capture_logs() as lines:
        patch.setattr(log, "reader", lambda starts, gather_s=0.0: _reader(log, dict(starts)))
        following = asyncio.create_task(follow_released(log, EVENTS[0], streams, ignore, lambda stream: None))
        for entry in await MemoryReader(log, {EVENTS: 0}).read(1.0):
            record = decode(entry)
            assert record is not None
            streams.fold(record)
        await read_to(streams, 0)
        following.cancel()
    assert [line["event"] for line in lines] == ["stream can't continue"]
    assert streams.by_id[STREAM].waits


def _reader(log: MemoryLog, starts: dict[TopicPartition, int]) -> MemoryReader:
    return (Expired if starts[EVENTS] else MemoryReader)(log, starts)


@pytest.mark.long
@pytest.mark.parametrize("read", [*STATES, *SERVICES, to_rebuild, to_verify], ids=lambda read: read.__name__)
async def test_a_reader_takes_less_than_a_megabyte_for_what_waits(read: Read, tmp_path: Path) -> None:
    """Compared with the same log without the record that parks the stream."""
    peaks = []
    for parks in (False, True):
        log = await long_log(MANY, parks=parks, goes_on=False)
        folder = tmp_path / str(parks)
        await read(await long_log(100, parks=parks, goes_on=False), folder / "first")  # fills caches
        gc.collect()
        tracemalloc.start()
        await read(log, folder)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < MOST_KEPT
