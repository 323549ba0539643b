"""When an incarnation was there: what it writes before its join, or after it left, by its own numbers."""

from typing import Any

import pytest

from tests.unit.domain.given import record_of
from trackside.contracts.fleet import WorkerJoined, WorkerLeft, WorkerLost
from trackside.contracts.message import Envelope, Event, Record
from trackside.contracts.tasks import TaskAccepted
from trackside.domain.findings import Findings
from trackside.verify.checks.incarnations import IncarnationChecks


def joined(incarnation: str) -> WorkerJoined:
    about: Any = {"host": "here", "devices": [], "task_types": [], "queues": [], "after": {}}
    return WorkerJoined(worker_id="w1", incarnation=incarnation, **about)


def at(event: Event, offset: int, sequence: int = 0) -> Record:
    record = record_of(event, offset, stream="w1")
    if sequence:
        record.envelope = Envelope({**record.envelope.headers, "ce_sequence": b"%d" % sequence})
    return record


LEFT = WorkerLeft(worker_id="w1", incarnation="i1")
LOST = WorkerLost(worker_id="w1", incarnation="i1", silent_ms=9)


def incarnations(*then: Event) -> IncarnationChecks:
    """Returns the checks after the join of i1, its event 2, and others, from its event 9 on."""
    found = IncarnationChecks(Findings())
    for offset, event in enumerate((joined("i1"), *then)):
        found.take(at(event, offset, 8 + offset if offset else 2))
    return found


@pytest.mark.parametrize(
    ("then", "sequence", "said"),
    [
        ([], 3, ""),
        ([], 1, "before it has joined"),
        ([LEFT], 8, ""),
        ([LEFT], 10, "after its worker had left"),
        ([LEFT], 0, ""),
        ([joined("i2")], 10, ""),
        ([LOST], 10, ""),
        ([LOST, joined("i2")], 10, ""),
    ],
)
def test_an_incarnation_acts_between_join_and_leave(then: list[Event], sequence: int, said: str) -> None:
    fleet = incarnations(*then)
    accepted = TaskAccepted(task_id="s.0", attempt=1, placement=1, incarnation="i1")
    fleet.check_event("i1", at(accepted, 0, sequence))
    found = [finding.message for finding in fleet.findings.found]
    assert len(found) == bool(said)
    assert all(said in message for message in found)


@pytest.mark.parametrize(("seen", "said"), [(0, ""), (2, "which was lost"), (1, ""), (9, "which was lost")])
def test_an_assignment_follows_what_its_scheduler_has_seen(seen: int, said: str) -> None:
    fleet = incarnations(LOST)
    fleet.check_assigned("w1", "i1", seen, at(LOST, 0))
    assert [said in finding.message for finding in fleet.findings.found] == [True] * bool(said)


def test_an_incarnation_that_comes_later_can_not_have_been_seen() -> None:
    fleet = incarnations(joined("i2"))
    fleet.check_assigned("w1", "i2", 1, at(LOST, 0))
    fleet.check_assigned("w1", "i3", 2, at(LOST, 0))
    fleet.check_assigned("w2", "i2", 2, at(LOST, 0))
    found = [finding.message for finding in fleet.findings.found]
    assert "before it had joined" in found[0] and all("never joined" in each for each in found[1:])
    assert len(found) == 3
