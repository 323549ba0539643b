"""When an incarnation was there: what it says before its join, or long after it left, is found."""

import pytest

from tests.unit.domain.given import record_of
from trackside.contracts.fleet import WorkerJoined, WorkerLeft, WorkerLost
from trackside.contracts.message import Event, Record
from trackside.contracts.tasks import TaskAccepted
from trackside.domain.findings import Findings
from trackside.verify.checks.incarnations import LATE_EVENTS_MS, MAX_CLOCK_SKEW_MS, IncarnationChecks

JOINED_MS = 1_000_000
GONE_MS = 2_000_000


def joined(incarnation: str) -> WorkerJoined:
    return WorkerJoined(
        worker_id="w1",
        incarnation=incarnation,
        host="here",
        devices=[],
        task_types=[],
        queues=[],
        after={},
    )


def at(event: Event, offset: int, time_ms: int) -> Record:
    record = record_of(event, offset, stream="w1")
    record.append_time_ms = time_ms
    return record


LEFT = WorkerLeft(worker_id="w1", incarnation="i1")
LOST = WorkerLost(worker_id="w1", incarnation="i1", silent_ms=9)


def incarnations(*then: Event) -> IncarnationChecks:
    found = IncarnationChecks(Findings())
    for offset, event in enumerate((joined("i1"), *then)):
        found.take(at(event, offset, GONE_MS if offset else JOINED_MS))
    return found


@pytest.mark.parametrize(
    ("then", "time_ms", "said"),
    [
        ([], JOINED_MS - MAX_CLOCK_SKEW_MS, ""),
        ([], JOINED_MS - MAX_CLOCK_SKEW_MS - 1, "before it has joined"),
        ([LEFT], GONE_MS + LATE_EVENTS_MS, ""),
        ([LEFT], GONE_MS + LATE_EVENTS_MS + 1, "10.0 s after its worker had left"),
        ([joined("i2")], GONE_MS + LATE_EVENTS_MS + 1, "after its worker has joined again"),
        ([LOST], GONE_MS + 10 * LATE_EVENTS_MS, ""),
        ([LOST, joined("i2")], GONE_MS + LATE_EVENTS_MS + 1, "after its worker was lost"),
    ],
)
def test_words_come_while_their_incarnation_is_there(then: list[Event], time_ms: int, said: str) -> None:
    fleet = incarnations(*then)
    accepted = TaskAccepted(task_id="s.0", attempt=1, placement=1, incarnation="i1")
    fleet.check_event("i1", at(accepted, 0, time_ms))
    found = [finding.message for finding in fleet.findings.found]
    assert len(found) == bool(said)
    assert all(said in message for message in found)


@pytest.mark.parametrize(("seen", "said"), [(0, ""), (2, "which was lost"), (1, ""), (9, "which was lost")])
def test_an_assignment_follows_what_its_scheduler_has_seen(seen: int, said: str) -> None:
    fleet = incarnations(LOST)
    fleet.check_assigned("w1", "i1", seen, at(LOST, 0, 0))
    assert [said in finding.message for finding in fleet.findings.found] == [True] * bool(said)


def test_an_incarnation_that_comes_later_can_not_have_been_seen() -> None:
    fleet = incarnations(joined("i2"))
    fleet.check_assigned("w1", "i2", 1, at(LOST, 0, 0))
    fleet.check_assigned("w1", "i3", 2, at(LOST, 0, 0))
    fleet.check_assigned("w2", "i2", 2, at(LOST, 0, 0))
    found = [finding.message for finding in fleet.findings.found]
    assert ["before it had joined" in found[0], "never joined" in found[1], "never joined" in found[2]] == [
        True
    ] * 3
