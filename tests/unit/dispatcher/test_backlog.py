"""D4: one warning when 20 requests wait for an advisor, one message when that has cleared, and a gauge."""

import pytest
import structlog
from structlog.testing import capture_logs
from structlog.typing import EventDict

from tests.unit.domain.given import record_of
from trackside.contracts.fleet.fleet import LaneBacklogged, LaneCleared
from trackside.dispatcher.advice.advice_loop import AdviceLoop
from trackside.dispatcher.advice.advisor_process import BACKLOG_LIMIT, AdvisorProcess
from trackside.domain.fleet import fleet
from trackside.domain.fleet.fleet import Fleet
from trackside.domain.outcome import Outcome
from trackside.eventlog.background import Background
from trackside.telemetry.metrics import gauge


class Harness:
    def __init__(self) -> None:
        self.processes = [AdvisorProcess("tuner"), AdvisorProcess("assessor")]
        self.advice = AdviceLoop(self.processes[0], self.processes[1], Background())
        self.logged: list[EventDict] = []

    def wait(self, change: int, process: int = 0) -> None:
        with capture_logs() as logged:
            for _ in range(abs(change)):
                self.processes[process]._count(1 if change > 0 else -1)
        self.logged += logged


@pytest.fixture
def harness() -> Harness:
    structlog.reset_defaults()  # another test may have configured a level that hides warnings
    return Harness()


def test_d04_twenty_that_wait_are_told_once_and_once_when_it_clears(harness: Harness) -> None:
    harness.wait(BACKLOG_LIMIT - 1)
    assert harness.logged == []
    harness.wait(30)
    [risen] = harness.logged
    assert (risen["event"], risen["log_level"]) == ("advisor backlogged", "warning")
    assert (risen["lane"], risen["waiting"], risen["limit"]) == ("tuner", BACKLOG_LIMIT, BACKLOG_LIMIT)
    for _ in range(5):
        harness.wait(-30)
        harness.wait(30)
    assert len(harness.logged) == 1, "it never came down to half of the limit"
    harness.wait(-(BACKLOG_LIMIT - 1 + 30))
    [_, cleared] = harness.logged
    assert (cleared["event"], cleared["log_level"]) == ("advisor backlog cleared", "info")
    assert (cleared["lane"], cleared["waiting"]) == ("tuner", BACKLOG_LIMIT // 2)


def test_d04_advisors_and_dispatchers_are_backlogged_each_for_itself_by_a_gauge(harness: Harness) -> None:
    harness.wait(BACKLOG_LIMIT, process=1)
    assert [logged["lane"] for logged in harness.logged] == ["assessor"]
    shown = gauge("trackside.dispatcher.lane_backlog.requests")
    assert shown.labels("assessor")._value.get() == BACKLOG_LIMIT
    harness.wait(-BACKLOG_LIMIT, process=1)
    assert shown.labels("assessor")._value.get() == 0
    harness.wait(BACKLOG_LIMIT)
    successor = Harness()
    successor.wait(1)
    assert successor.logged == []
    assert shown.labels("tuner")._value.get() == 1


def test_d04_backlog_events_of_older_logs_change_nothing() -> None:
    known, process = Fleet(), {"instance": "1", "incarnation": "r", "lane": "tuner"}
    events = [LaneBacklogged(**process, waiting=20, limit=20), LaneCleared(**process, waiting=3)]
    outcomes = [fleet.evolve(known, record_of(event, at)) for at, event in enumerate(events)]
    assert outcomes == [Outcome.OVERTAKEN, Outcome.OVERTAKEN]
    assert known == Fleet(position=2)
