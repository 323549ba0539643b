from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.unit.projections.given import write_small_history
from tests.unit.replay.given import TOPICS, empty, events_of
from trackside.domain.streams import dump
from trackside.eventlog.memory import MemoryLog
from trackside.replay.find_stream import find_stream
from trackside.replay.history import recorded_stream, state_cache
from trackside.replay.history.point_in_time import NOW, PointInTime
from trackside.replay.history.recorded_stream import PastState, state_at
from trackside.replay.history.state_cache import StateCache

FEW = 10


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
    other = await empty()
    await write_small_history(other, TOPICS)  # the same events, under other ids
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
    grown = await empty()
    await write_small_history(grown, TOPICS)
    await looks(grown, [NOW], StateCache(cache.folder))
    assert len(files(cache)) <= 2


async def test_a_disk_that_takes_nothing_costs_nothing_but_time(log: MemoryLog, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    [fresh] = await looks(log, [NOW], None)
    [past] = await looks(log, [NOW], StateCache(tmp_path / "file" / "states"))
    assert same(fresh, past)
