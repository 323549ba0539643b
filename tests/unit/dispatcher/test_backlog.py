"""D4: one event when 20 wait in a lane, one when that clears, and no flood between them."""

import asyncio
from typing import Any

import pytest

from tests.unit.domain.given import record_of
from trackside.contracts.advice import LaneBacklogged, LaneCleared
from trackside.dispatcher.advice.advice_loop import AdviceLoop
from trackside.dispatcher.advice.advisor_process import BACKLOG_LIMIT, AdvisorProcess
from trackside.dispatcher.advice.backlog import Backlog
from trackside.domain import fleet
from trackside.domain.fleet import Fleet
from trackside.domain.outcome import Outcome
from trackside.eventlog.background import Background
from trackside.telemetry.metrics import gauge


class Rig:
    """Two lanes in which a test lets requests wait, their dispatcher, and the fleet topic."""

    def __init__(self, known: Fleet | None = None, incarnation: str = "run-1") -> None:
        self.lanes = [AdvisorProcess("tuner"), AdvisorProcess("assessor")]
        self.woken = 0
        self.advice = AdviceLoop(self.lanes[0], self.lanes[1], Background())
        self.advice.ready = self._woken
        self.fleet = known or Fleet()
        self.backlog = Backlog("1", incarnation, self.advice.lanes)
        self.events: list[Any] = []

    def _woken(self) -> None:
        self.woken += 1

    def wait(self, more: int, lane: int = 0) -> None:
        """Lets so many requests more wait, one after the other, and the dispatcher look each time."""
        for _ in range(abs(more)):
            self.lanes[lane]._count(1 if more > 0 else -1)
            self.look()

    def look(self) -> None:
        """Has the dispatcher say what the log lacks."""
        for event in list(self.backlog.lacking(self.fleet)):
            assert fleet.evolve(self.fleet, record_of(event, len(self.events))) is Outcome.APPLIED
            self.events.append(event)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_d04_twenty_that_wait_are_told_once_and_once_when_it_clears(rig: Rig) -> None:
    rig.wait(BACKLOG_LIMIT - 1)
    assert rig.events == []
    rig.wait(30)
    [risen] = rig.events
    assert isinstance(risen, LaneBacklogged)
    assert (risen.lane, risen.waiting, risen.limit) == ("tuner", BACKLOG_LIMIT, BACKLOG_LIMIT)
    for _ in range(5):
        rig.wait(-30)
        rig.wait(30)
    assert len(rig.events) == 1, "it never came down to half of the limit"
    rig.wait(-(BACKLOG_LIMIT - 1 + 30))
    [_, cleared] = rig.events
    assert isinstance(cleared, LaneCleared)
    assert (cleared.lane, cleared.waiting) == ("tuner", BACKLOG_LIMIT // 2)
    assert rig.woken == 2


def test_d04_lanes_are_backlogged_each_for_itself_and_shown_by_a_gauge(rig: Rig) -> None:
    rig.wait(BACKLOG_LIMIT, lane=1)
    assert [event.lane for event in rig.events] == ["assessor"]
    shown = gauge("trackside.dispatcher.lane_backlog.requests")
    assert shown.labels("assessor")._value.get() == BACKLOG_LIMIT
    rig.wait(-BACKLOG_LIMIT, lane=1)
    assert shown.labels("assessor")._value.get() == 0


def test_d04_a_dispatcher_that_was_killed_is_cleared_by_its_successor_once(rig: Rig) -> None:
    rig.wait(BACKLOG_LIMIT)
    after = Rig(rig.fleet, "run-2")
    after.look()
    after.look()
    [cleared] = after.events
    assert isinstance(cleared, LaneCleared)
    assert (cleared.incarnation, after.fleet.backlogged) == ("run-1", set())


def test_d04_the_word_of_a_lane_counts_once() -> None:
    known, risen = Fleet(), {"instance": "1", "incarnation": "r", "lane": "tuner"}
    backlogged = LaneBacklogged(**risen, waiting=20, limit=20)
    cleared = LaneCleared(**risen, waiting=3)
    told = [cleared, backlogged, backlogged, cleared, cleared]
    outcomes = [fleet.evolve(known, record_of(event, at)) for at, event in enumerate(told)]
    applied, duplicate = Outcome.APPLIED, Outcome.DUPLICATE
    assert outcomes == [duplicate, applied, duplicate, applied, duplicate]


async def test_one_may_wait_until_no_lane_is_asked_anything_but_not_for_ever(rig: Rig) -> None:
    await rig.advice.answered(60)  # nothing is asked: at once
    rig.wait(2)
    rig.wait(1, lane=1)
    waiting = asyncio.create_task(rig.advice.answered(60))
    await rig.advice.answered(0.01)
    rig.wait(-2)
    await asyncio.sleep(0)
    assert not waiting.done(), "the other lane is still asked"
    rig.wait(-1, lane=1)
    async with asyncio.timeout(60):
        await waiting
