from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.unit.domain.given import STREAM
from tests.unit.domain.test_forgetting import decided, ended_search, forget
from tests.unit.projections.given import WORKER, search_decisions
from tests.unit.projections.given_batches import eventful_batch
from tests.unit.replay.given import FIRST_MS, TOPICS, empty, events_of, log_of, small_log, write
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.state import search_of
from trackside.contracts.envelope.message import Record
from trackside.contracts.tasks.tasks import TaskRefused
from trackside.domain.folding.streams import Streams, dump
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.memory import MemoryLog
from trackside.replay.find_stream import find_stream
from trackside.replay.history import recorded_stream, state_cache
from trackside.replay.history.errors import (
    BadRangeError,
    ForgottenStreamError,
    KeyMissingError,
    UnknownStreamError,
)
from trackside.replay.history.point_in_time import NOW, PointInTime
from trackside.replay.history.recorded_stream import PastState, state_at, states_at
from trackside.replay.history.state_cache import StateCache

FEW = 10


def folded(log: MemoryLog, stream: str, until: int) -> bytes:
    """Returns the state as a service has it that has folded the partition up to an offset."""
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


async def test_a_forgotten_stream_has_no_state_and_before_that_its_key_is_missing() -> None:
    told = ended_search()
    forget(told)
    told.tell(*decided(told))
    history = await find_stream(await log_of(told), TOPICS, STREAM)
    with pytest.raises(ForgottenStreamError, match="can't be read any more"):
        await state_at(history, NOW)
    with pytest.raises(KeyMissingError, match="it was forgotten later"):
        await state_at(history, PointInTime(offset=9))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateCache:
    monkeypatch.setattr(recorded_stream, "CACHE_EVERY_RECORDS", FEW)
    monkeypatch.setattr(recorded_stream, "MIN_RECORDS_TO_CACHE", 3)
    return StateCache(tmp_path / "states")


async def looks(log: MemoryLog, moments: Sequence[PointInTime], cache: StateCache | None) -> list[PastState]:
    history = await find_stream(log, TOPICS, "one")
    return [await state_at(history, moment, cache) for moment in moments]


def files(cache: StateCache) -> list[Path]:
    return sorted(cache.folder.rglob(f"*{state_cache.SUFFIX}"))


def same(one: PastState, other: PastState) -> bool:
    first, second = ((dump(it.stream), it.last.offset, it.records, it.ignored) for it in (one, other))
    return first == second


@pytest.mark.thorough
async def test_every_later_look_gives_what_the_first_one_gives(log: MemoryLog, cache: StateCache) -> None:
    entries = events_of(log, "one")[(await find_stream(log, TOPICS, "one")).begin :]
    await looks(log, [NOW], cache)
    by_offset = [PointInTime(offset=entry.offset) for entry in entries]
    by_time = [PointInTime(time_ms=entry.append_time_ms) for entry in entries]
    for moment in (*by_offset, *by_time):
        [fresh], [later] = await looks(log, [moment], None), await looks(log, [moment], cache)
        assert same(fresh, later)
    assert later.cached >= FEW


async def test_a_later_look_folds_what_came_after_of_this_log_only(log: MemoryLog, cache: StateCache) -> None:
    first, again = await looks(log, [NOW, NOW], cache)
    assert first.cached == 0
    assert again.cached == again.records == first.records
    await looks(log, [NOW], cache)
    other = await small_log()
    [fresh], [later] = await looks(other, [NOW], None), await looks(other, [NOW], cache)
    assert same(fresh, later)
    assert later.cached == 0


@pytest.mark.parametrize("harm", ["cut", "changed", "another fold", "no line"])
async def test_a_file_that_is_not_whole_is_passed_over(log: MemoryLog, cache: StateCache, harm: str) -> None:
    await looks(log, [NOW], cache)
    for path in files(cache):
        octets = path.read_bytes()
        harmed = {
            "cut": octets[:-10],
            "changed": octets.replace(b'"search"', b'"zearch"'),
            "another fold": octets.replace(b'"fold": "', b'"fold": "0', 1),
            "no line": b"",
        }
        path.write_bytes(harmed[harm])
    [later] = await looks(log, [NOW], cache)
    assert later.cached == 0


async def test_old_files_go_first(log: MemoryLog, cache: StateCache, monkeypatch: pytest.MonkeyPatch) -> None:
    await looks(log, [NOW], cache)
    assert len(files(cache)) > 2
    monkeypatch.setattr(state_cache, "MAX_BYTES", files(cache)[-1].stat().st_size + 1)
    await looks(log, [PointInTime(offset=events_of(log, "one")[-5].offset)], cache)
    await looks(await small_log(), [NOW], StateCache(cache.folder))
    assert len(files(cache)) <= 2


async def test_a_disk_that_takes_nothing_costs_nothing_but_time(log: MemoryLog, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    [fresh] = await looks(log, [NOW], None)
    [past] = await looks(log, [NOW], StateCache(tmp_path / "file" / "states"))
    assert same(fresh, past)
