"""States kept on disk: a later look begins there, gives the same, and believes nothing that isn't so."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.unit.projections.given import write_small_history
from tests.unit.replay.given import TOPICS, empty, events_of
from trackside.domain.streams import dump
from trackside.eventlog.memory import MemoryLog
from trackside.replay.find import find
from trackside.replay.history import history as timeline
from trackside.replay.history import state_cache as keeping
from trackside.replay.history.history import Past, past_at
from trackside.replay.history.moments import NOW, Moment
from trackside.replay.history.state_cache import Kept

FEW = 10


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kept:
    monkeypatch.setattr(timeline, "EVERY_RECORDS", FEW)
    monkeypatch.setattr(timeline, "WORTH_KEEPING", 3)
    return Kept(tmp_path / "states")


@pytest.fixture
async def log() -> MemoryLog:
    written = await empty()
    await write_small_history(written, TOPICS)
    return written


async def looks(log: MemoryLog, moments: Sequence[Moment], kept: Kept | None) -> list[Past]:
    history = await find(log, TOPICS, "one")
    return [await past_at(history, moment, kept) for moment in moments]


def files(kept: Kept) -> list[Path]:
    return sorted(kept.folder.rglob(f"*{keeping.SUFFIX}"))


def same(one: Past, other: Past) -> bool:
    return (dump(one.stream), one.last.offset, one.records, one.ignored) == (
        dump(other.stream),
        other.last.offset,
        other.records,
        other.ignored,
    )


@pytest.mark.thorough
async def test_every_later_look_gives_what_the_first_one_gives(log: MemoryLog, kept: Kept) -> None:
    entries = events_of(log, "one")[(await find(log, TOPICS, "one")).begin :]
    await looks(log, [NOW], kept)
    by_offset = [Moment(offset=entry.offset) for entry in entries]
    by_time = [Moment(time_ms=entry.append_time_ms) for entry in entries]
    for moment in (*by_offset, *by_time):
        [fresh], [later] = await looks(log, [moment], None), await looks(log, [moment], kept)
        assert same(fresh, later)
    assert later.known >= FEW


async def test_a_later_look_folds_only_what_came_after(log: MemoryLog, kept: Kept) -> None:
    first, again = await looks(log, [NOW, NOW], kept)
    assert first.known == 0
    assert again.known == again.records == first.records


async def test_what_is_of_another_log_is_not_believed(log: MemoryLog, kept: Kept) -> None:
    await looks(log, [NOW], kept)
    other = await empty()
    await write_small_history(other, TOPICS)  # the same events, under other ids
    [fresh], [later] = await looks(other, [NOW], None), await looks(other, [NOW], kept)
    assert same(fresh, later)
    assert later.known == 0


@pytest.mark.parametrize("harm", ["cut", "changed", "another fold", "no line"])
async def test_a_file_that_is_not_whole_is_passed_over(log: MemoryLog, kept: Kept, harm: str) -> None:
    await looks(log, [NOW], kept)
    for path in files(kept):
        octets = path.read_bytes()
        harmed = {
            "cut": octets[:-10],
            "changed": octets.replace(b'"search"', b'"zearch"'),
            "another fold": octets.replace(b'"fold": "', b'"fold": "0', 1),
            "no line": b"",
        }
        path.write_bytes(harmed[harm])
    [later] = await looks(log, [NOW], kept)
    assert later.known == 0


async def test_the_oldest_files_make_room(
    log: MemoryLog, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    await looks(log, [NOW], kept)
    assert len(files(kept)) > 2
    monkeypatch.setattr(keeping, "MOST_BYTES", files(kept)[-1].stat().st_size + 1)
    await looks(log, [Moment(offset=events_of(log, "one")[-5].offset)], kept)
    await looks(await _grown(log), [NOW], Kept(kept.folder))
    assert len(files(kept)) <= 2


async def _grown(log: MemoryLog) -> MemoryLog:
    """Gives another log of the same stream, of which nothing is kept yet."""
    other = await empty()
    await write_small_history(other, TOPICS)
    return other


async def test_a_disk_that_takes_nothing_costs_nothing_but_time(log: MemoryLog, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    [fresh] = await looks(log, [NOW], None)
    [past] = await looks(log, [NOW], Kept(tmp_path / "file" / "states"))
    assert same(fresh, past)
