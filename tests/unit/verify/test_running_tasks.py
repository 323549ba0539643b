"""INV-21, and retries of services: in logs that are right, and in those of a fold that applies everything."""

from collections.abc import Callable, Sequence

import pytest

from tests.unit.domain.given import Told, assigned, begun, ended, report, task_active
from tests.unit.domain.test_resume import checkpointed, digest, resumed
from tests.unit.domain.test_services import answered, fail, given, ready
from trackside.contracts.artifacts import ArtifactsForgotten
from trackside.contracts.message import Event
from trackside.contracts.tasks import AttemptEnd
from trackside.domain.findings import Findings
from trackside.domain.outcome import Outcome
from trackside.domain.streams import Streams
from trackside.verify.verifier import Verifier

OTHERS = {"INV-5", "INV-7"}
"""These logs have no fleet: no incarnation has joined."""


FORGOTTEN = ArtifactsForgotten(command_id="c-9", artifacts=[digest(1)])


def found(told: Told) -> list[tuple[str, str]]:
    """Returns invariants and messages for what was told, all of which a broken fold applies."""
    streams: Streams = type(told.streams)(told.streams.aggregates)
    verifier = Verifier(lambda record: (streams.fold(record)[0], Outcome.APPLIED), whole=False)
    for record in told.records:
        verifier.take(record)
    findings: Findings = verifier.findings
    return [(each.invariant, each.message) for each in findings.sorted() if each.invariant not in OTHERS]


def test_a_task_that_saves_and_continues_is_no_finding() -> None:
    told = task_active(retry={"failed": 3})
    told.tell(report(0, 0.5))
    told.tell(checkpointed(1))
    told.tell(report(1, 0.6))
    told.tell(ended(AttemptEnd.FAILED))
    told.tell(assigned(attempt=2))
    told.tell(begun(attempt=2))
    told.tell(resumed(1, attempt=2))
    told.tell(report(1, 0.7, attempt=2))
    told.tell(checkpointed(2, version=2, attempt=2))
    assert told.outcomes.count(Outcome.APPLIED) == len(told.outcomes)
    assert found(told) == []


def test_a_service_that_fails_often_and_acknowledges_is_no_finding() -> None:
    told = task_active(service={})
    for number in range(1, 6):
        fail(told)
        told.tell(given(number))
        told.tell(ready(attempt=number + 1))
        told.tell(answered(number, attempt=number + 1))
    assert told.outcomes.count(Outcome.APPLIED) == len(told.outcomes)
    assert found(told) == []


def _again(told: Told) -> None:
    told.tell(ended(AttemptEnd.FAILED))
    told.tell(assigned(attempt=2))


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([checkpointed(1), checkpointed(2, number=1)], "number 1 comes after number 1"),
        ([checkpointed(1, placement=2)], "is not of a placement that runs"),
        ([checkpointed(1, incarnation="i-2")], "is not of a placement that runs"),
        ([resumed(3)], "no checkpoint of step 3"),
        ([checkpointed(3), report(0, 0.5), resumed(3)], "had begun already"),
        ([checkpointed(3), resumed(3), resumed(3)], "had begun already"),
        ([ready()], "it is no service"),
        ([answered(1)], "when 0 was the newest"),
        ([checkpointed(1), checkpointed(2, number=2)], "version 1 of checkpoint comes after version 1"),
        ([checkpointed(1).model_copy(update={"requests": 1})], "of a training that is over"),
        ([checkpointed(3), resumed(3, interrupts=1)], "of a training that is over"),
        ([checkpointed(1), FORGOTTEN], "is forgotten, which task digits-1.0 needs"),
        ([given(1), answered(1), answered(1)], "instruction 1, when 1 was the newest"),
        ([given(1), given(2), answered(1)], "instruction 1, when 2 was the newest"),
        ([given(2)], "instruction 2 of digits-1.0 is given too late"),
        ([ended(), checkpointed(1)], "had ended before"),
    ],
)
def test_a_fold_that_applies_too_much_is_found(events: Sequence[Event], message: str) -> None:
    told = task_active()
    for event in events:
        told.tell(event)
    assert any(message in text for _, text in found(told)), found(told)


@pytest.mark.parametrize("say", [checkpointed, resumed])
def test_a_placement_that_has_not_begun_saves_and_continues_nothing(say: Callable[..., Event]) -> None:
    told = task_active(retry={"failed": 3})
    _again(told)
    told.tell(say(1, attempt=2))
    assert any("is not of a placement that runs" in text for _, text in found(told))


def test_a_service_that_waits_too_short_after_its_second_failure_is_found() -> None:
    told = task_active(service={})
    fail(told)
    told.tell(ended(AttemptEnd.FAILED, attempt=2))
    told.next_offset += 12_000
    told.tell(assigned(attempt=3))
    assert any("before it may be" in text for _, text in found(told))


def test_a_device_that_a_task_without_devices_gets_is_found() -> None:
    told = task_active(resources={"devices": 0})
    assert [invariant for invariant, _ in found(told)] == ["INV-4"]


def test_a_service_that_is_placed_again_at_once_is_found() -> None:
    told = task_active(service={})
    _again(told)
    assert any("before it may be" in text for _, text in found(told))
