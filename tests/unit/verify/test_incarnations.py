"""When an incarnation was there, by its own numbers, and which attempts of earlier ones it may adopt."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.unit.domain.given import Told, adopted, ended, record_of, report, status, task_active
from tests.unit.replay.given import after
from tests.unit.verify import mutants
from tests.unit.verify.mutants import Found
from trackside.contracts.envelope.message import Envelope, Event, Record
from trackside.contracts.fleet.fleet import WorkerJoined, WorkerLeft, WorkerLost
from trackside.contracts.tasks.resources import Needs
from trackside.contracts.tasks.tasks import TaskAccepted, TaskStatus
from trackside.domain.checks.findings import Findings
from trackside.verify.checks.tasks.attempt_ends import check_end
from trackside.verify.checks.tasks.incarnations import IncarnationChecks
from trackside.verify.checks.tasks.task_history import TaskHistory
from trackside.verify.verifier import Verifier


def joined(incarnation: str) -> WorkerJoined:
    about: Any = {"host": "here", "devices": [], "task_types": [], "queues": [], "after": {}}
    return WorkerJoined(worker_id="w1", incarnation=incarnation, **about)


def at(event: Event, offset: int, sequence: int = 0, **headers: bytes) -> Record:
    record = record_of(event, offset, stream="w1")
    numbered = {"ce_sequence": b"%d" % sequence} if sequence else {}
    record.envelope = Envelope({**record.envelope.headers, **numbered, **headers})
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


AGAIN = adopted(incarnation="i-3", earlier=("i-1", "i-2"))


def told_of(*events: Event) -> Told:
    """Returns a log in which incarnation i-1 has an attempt, and these events follow."""
    return after(task_active(), status(TaskStatus.TRAINING), *events)


def found(told: Told, lax: bool = True) -> Found:
    """Returns invariants and messages; `lax`: the fold is one that applies everything."""
    verifier = Verifier(mutants.lax() if lax else None, whole=False)
    for offset, incarnation in enumerate(("i-1", "i-2", "i-3")):
        verifier.take_fleet(record_of(joined(incarnation), offset, stream="w1"))
    for record in told.records:
        verifier.take(record)
    return [(each.invariant, each.message) for each in verifier.findings.sorted()]


@pytest.mark.parametrize("then", [[adopted()], [adopted(), AGAIN], [AGAIN]])
def test_an_attempt_that_its_next_incarnations_adopt_is_no_finding(then: Sequence[Event]) -> None:
    newest = "i-2" if then == [adopted()] else "i-3"
    assert found(told_of(*then, report(0, 0.5), ended(incarnation=newest))) == []


@pytest.mark.parametrize(
    ("wrong", "invariant", "said"),
    [
        ([adopted(worker="w2")], "INV-7", "is adopted by worker w2, and incarnation i-1 of worker w1 has it"),
        ([adopted(earlier=("i-0",))], "INV-7", "is adopted by worker w1, and incarnation i-1"),
        ([AGAIN, adopted()], "INV-7", "is adopted by worker w1, and incarnation i-3"),
        ([adopted(), adopted()], "INV-7", "is adopted by worker w1, and incarnation i-2"),
        ([adopted(placement=2)], "INV-5", "the last assignment is attempt 1 placement 1"),
        ([adopted(), ended()], "INV-7", "is written by another incarnation than i-2, which has it"),
        ([ended(), adopted()], "INV-2", "had ended before this AttemptAdopted"),
    ],
    ids=["worker", "earlier", "late", "twice", "placement", "earlier_writes", "ended"],
)
def test_an_adoption_without_right_is_found(wrong: Sequence[Event], invariant: str, said: str) -> None:
    told = told_of(*wrong)
    assert any(each == invariant and said in message for each, message in found(told)), found(told)
    assert found(told, lax=False) == []


@pytest.mark.parametrize(
    ("was_adopted", "sequence", "recovered"),
    [(False, 0, True), (False, 7, False), (True, 0, False), (True, 7, False)],
)
def test_an_end_is_recovered_that_a_worker_reports_at_its_start_of_what_it_had_not_adopted(
    was_adopted: bool, sequence: int, recovered: bool
) -> None:
    task = TaskHistory("s.0", Needs(), 0, adopted=was_adopted)
    for said in (True, False):
        event, findings = ended().model_copy(update={"recovered": said}), Findings()
        record = at(event, 0, sequence, ce_causationid=b"assigned")
        check_end(task, event, record, findings, numbered=True)
        assert bool(findings.found) is (said is not recovered)
