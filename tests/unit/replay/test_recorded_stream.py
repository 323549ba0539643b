from contextlib import aclosing
from dataclasses import asdict

import pytest

from tests.unit.projections.given import WORKER, search_decisions
from tests.unit.projections.given_batches import eventful_batch
from tests.unit.replay.given import FIRST_MS, TOPICS, empty, events_of, write
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.state import search_of
from trackside.contracts.message import Record
from trackside.contracts.tasks import TaskRefused
from trackside.domain.streams import Streams, dump
from trackside.eventlog.decode import decode
from trackside.eventlog.memory import MemoryLog
from trackside.replay.find_stream import find_stream
from trackside.replay.history.errors import BadRangeError, UnknownStreamError
from trackside.replay.history.point_in_time import NOW, PointInTime
from trackside.replay.history.recorded_stream import PastState, state_at, states_at


def folded(log: MemoryLog, stream: str, until: int) -> bytes:
    """Gives the state as a service has it that has folded the partition up to an offset."""
    streams = Streams(AGGREGATES)
    for entry in events_of(log, stream)[: until + 1]:
        record = decode(entry)
        assert isinstance(record, Record)
        streams.fold(record)
    return dump(streams.by_id[stream])


@pytest.mark.thorough
@pytest.mark.parametrize("stream", ["one", "two", "tasks", "going", "open"])
async def test_the_state_at_every_offset_is_what_a_service_had_there(log: MemoryLog, stream: str) -> None:
    history = await find_stream(log, TOPICS, stream)
    compared = 0
    for entry in events_of(log, stream)[history.begin :]:
        past = await state_at(history, PointInTime(offset=entry.offset))
        assert dump(past.stream) == folded(log, stream, entry.offset)
        compared += 1
    assert compared > 10


@pytest.mark.thorough
async def test_a_time_is_behind_all_that_was_written_by_then(log: MemoryLog) -> None:
    history = await find_stream(log, TOPICS, "one")
    for entry in events_of(log, "one")[history.begin :: 7]:
        by_time = await state_at(history, PointInTime(time_ms=entry.append_time_ms + 5))
        assert dump(by_time.stream) == folded(log, "one", by_time.last.offset)
        assert by_time.last.append_time_ms <= entry.append_time_ms + 5


async def test_two_moments_are_one_pass_over_the_log(log: MemoryLog) -> None:
    history = await find_stream(log, TOPICS, "two")
    first = history.begin
    seen: list[tuple[int, int]] = []
    async with aclosing(states_at(history, [PointInTime(offset=first + 3), NOW])) as found:
        async for past in found:
            assert isinstance(past, PastState)
            assert search_of(past.stream) is not None
            seen.append((past.last.offset, len(past.stream.root.trials)))
    assert seen[0] == (first + 3, 1)
    assert seen[1][1] == 4


async def test_events_without_effect_are_counted(log: MemoryLog) -> None:
    again = await empty()
    planned = list(search_decisions("s", trials=1))
    token = {"task_id": "s.0", "attempt": 1, "placement": 1, "incarnation": "i1"}
    late = TaskRefused.model_validate({**token, "code": "device_busy", "message": "late"})
    await write(again, "s", [*planned[:5], planned[4], [WORKER.single("s", late)]])
    past = await state_at(await find_stream(again, TOPICS, "s"))
    assert (past.ignored, past.records) == (2, len(events_of(again, "s")))


async def test_an_unknown_stream_is_named_and_a_past_says_where_it_is(log: MemoryLog) -> None:
    with pytest.raises(UnknownStreamError, match=r"unknown_stream: .*'none'"):
        await find_stream(log, TOPICS, "none")
    past = await state_at(await find_stream(log, TOPICS, "one"))
    assert asdict(past).keys() == {"stream", "last", "records", "ignored", "entry", "cached", "latest_ms"}
    assert (past.entry, past.cached) == (past.last.offset, 0)
    assert past.last.offset == past.stream.last_offset


async def test_moments_that_a_stream_does_not_have_are_refused() -> None:
    log = await empty()
    await write(log, "s", search_decisions("s", trials=1))
    later = next(name for name in map(str, range(100)) if events_of(log, name) is events_of(log, "s"))
    await write(log, later, eventful_batch(later))
    history = await find_stream(log, TOPICS, later)
    with pytest.raises(BadRangeError, match=f"began at offset {history.begin}, .*no state at offset 2"):
        await state_at(history, PointInTime(offset=2))
    with pytest.raises(BadRangeError, match="no state at 2023"):
        await state_at(history, PointInTime(time_ms=FIRST_MS))
    with pytest.raises(BadRangeError, match="the last offset of the partition is"):
        await state_at(history, PointInTime(offset=10_000))
    backwards = [PointInTime(offset=history.begin + 9), PointInTime(offset=history.begin + 2)]
    async with aclosing(states_at(history, backwards)) as found:
        assert (await anext(found)).last.offset == history.begin + 9
        with pytest.raises(BadRangeError, match="comes before the moment to start from"):
            await anext(found)
