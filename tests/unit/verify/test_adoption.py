"""What the verifier says of adoptions that a fold without its rules has applied."""

from collections.abc import Sequence

import pytest

from tests.unit.domain.given import Told, adopted, ended, record_of, report, status, task_active
from tests.unit.verify.mutants import Found
from tests.unit.verify.mutants import lax as lax_fold
from tests.unit.verify.test_incarnations import joined
from trackside.contracts.message import Event
from trackside.contracts.tasks import TaskStatus
from trackside.verify.verifier import Verifier

AGAIN = adopted(incarnation="i-3", earlier=("i-1", "i-2"))


def told_of(*events: Event) -> Told:
    """Returns a log in which incarnation i-1 has an attempt, and these events follow."""
    told = task_active()
    told.tell(status(TaskStatus.TRAINING))
    for event in events:
        told.tell(event)
    return told


def found(told: Told, lax: bool = True) -> Found:
    """Returns invariants and messages; `lax`: the fold is one that applies everything."""
    verifier = Verifier(lax_fold() if lax else None, whole=False)
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
