"""What pages say of the effect of events is what a fold of the whole stream makes of them."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.unit.replay.given import TOPICS
from tests.unit.replay.test_forged_events import EVERY, NAMES, outcomes
from tests.unit.signing.forged_log import ForgedLog, forged_log
from trackside.domain.outcome import Outcome
from trackside.projections.past.reader import PastReader
from trackside.projections.past.store import FolderPastStore
from trackside.projections.past.writer import write_past
from trackside.replay.causality import standings
from trackside.replay.causality.standings import MOST_STREAMS, Standings


@pytest.fixture
async def log(tmp_path: Path) -> ForgedLog:
    return await forged_log(tmp_path / "keys")


def offsets_of(log: ForgedLog, name: str) -> list[int]:
    """Returns the offsets of a stream from the first event on that had an effect, as pages show them."""
    found = outcomes(log, name)[0]
    first = next(offset for offset, outcome in found.items() if outcome is Outcome.APPLIED)
    return [offset for offset in found if offset >= first]


@dataclass
class Asked:
    """What a page asks for, compared with a fold of all."""

    log: ForgedLog
    standings: Standings
    past: PastReader | None = None

    async def of(self, name: str, first: int, last: int) -> int:
        """Checks the events of a stream between two offsets; returns how many had no effect."""
        expected = {
            offset
            for offset, outcome in outcomes(self.log, name)[0].items()
            if outcome is not Outcome.APPLIED and first <= offset <= last
        }
        found = await self.standings.of(self.log, TOPICS, name, self.past, first, last)
        assert found.until > last
        assert {offset for offset in found.without_effect if first <= offset <= last} == expected
        return len(expected)


@pytest.mark.thorough
async def test_each_part_of_a_stream_is_told_as_a_fold_of_all_tells_it(
    log: ForgedLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FolderPastStore(tmp_path / "past")
    for partition in range(TOPICS.event_partitions):
        await write_past(log, TOPICS.events, partition, store, 10**9, EVERY)
    kept, found = Standings(), 0
    for past in (None, PastReader(store)):
        asked = Asked(log, kept if past is None else Standings(), past)
        for name in NAMES:
            offsets = offsets_of(log, name)
            middle, last = offsets[len(offsets) // 2], offsets[-1]
            for first, until in ((middle, last), (offsets[0], middle), (last, last), (offsets[0], last)):
                found += await asked.of(name, first, until)
    assert found > 100
    assert len(kept.folded) == MOST_STREAMS
    last = offsets_of(log, NAMES[-1])[-1]
    known = await kept.of(log, TOPICS, NAMES[-1], None, last, last)
    assert "forged: unsigned" in known.without_effect.values()


async def test_a_page_folds_a_part_and_the_next_one_goes_on(
    log: ForgedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standings, "MOST_ENTRIES", 20)
    kept = Standings()
    offsets = offsets_of(log, "one")
    ends = [(await kept.of(log, TOPICS, "one", None, offsets[0], offsets[-1])).until for _ in range(200)]
    assert ends == sorted(ends) and ends[0] <= offsets[0] + 21 and ends[-1] > offsets[-1]
    await Asked(log, kept).of("one", offsets[0], offsets[-1])


async def test_a_flood_of_events_without_effect_takes_a_bounded_memory(
    log: ForgedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standings, "MOST_WITHOUT_EFFECT", 5)
    kept = Standings()
    offsets = offsets_of(log, "one")
    found = await kept.of(log, TOPICS, "one", None, offsets[0], offsets[-1])
    assert len(found.without_effect) == 5 and found.since > offsets[0]


async def test_of_a_stream_that_the_log_does_not_have_nothing_is_known(log: ForgedLog) -> None:
    found = await Standings().of(log, TOPICS, "nobody", None, 0, 10)
    assert (found.until, dict(found.without_effect)) == (0, {})
