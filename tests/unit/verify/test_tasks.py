from collections.abc import Callable, Sequence

import pytest

from tests.unit.domain.given import (
    Told,
    assigned,
    begun,
    ended,
    interrupted,
    over,
    preemption,
    recall,
    report,
    status,
    submitted,
    task_active,
    unschedulable,
)
from tests.unit.domain.test_resume import checkpointed, digest, resumed
from tests.unit.domain.test_services import answered, fail, given, ready
from tests.unit.replay.given import after
from tests.unit.verify.mutants import Found, lax, verified
from trackside.aggregates.search.messages import SearchEnded, SearchStatus
from trackside.contracts.envelope.message import Event
from trackside.contracts.streams.labels import StreamAnnotated
from trackside.contracts.tasks.artifacts import ArtifactsForgotten
from trackside.contracts.tasks.tasks import (
    AttemptEnd,
    TaskHeld,
    TaskStatus,
    TaskStopRequested,
    TimeLimitReached,
)
from trackside.domain.outcome import Outcome

OTHERS = {"INV-5", "INV-7"}
"""These logs have no fleet: no incarnation has joined."""
ANNOTATED = StreamAnnotated(command_id="c-1", note="for table 2")
FORGOTTEN = ArtifactsForgotten(command_id="c-9", artifacts=[digest(1)])


def found(told: Told) -> Found:
    """Returns invariants and messages for what was told, all of which a broken fold applies."""
    findings = verified(told.records, lax(), whole=False).findings
    return [(each.invariant, each.message) for each in findings.sorted() if each.invariant not in OTHERS]


def test_a_task_that_saves_and_continues_is_no_finding() -> None:
    told = after(
        task_active(retry={"failed": 3}),
        *(report(0, 0.5), checkpointed(1), report(1, 0.6), ended(AttemptEnd.FAILED), assigned(attempt=2)),
        *(begun(attempt=2), resumed(1, attempt=2), report(1, 0.7, attempt=2)),
        checkpointed(2, version=2, attempt=2),
    )
    assert told.outcomes.count(Outcome.APPLIED) == len(told.outcomes)
    assert found(told) == []


def test_a_service_that_fails_often_and_acknowledges_is_no_finding() -> None:
    told = task_active(service={})
    for number in range(1, 6):
        fail(told)
        after(told, given(number), ready(attempt=number + 1), answered(number, attempt=number + 1))
    assert told.outcomes.count(Outcome.APPLIED) == len(told.outcomes)
    assert found(told) == []


def _again(told: Told) -> None:
    after(told, ended(AttemptEnd.FAILED), assigned(attempt=2))


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
        ([ended(), ended()], "had ended before"),
        ([status(TaskStatus.TRAINING), status(TaskStatus.LOADING)], "TaskStatusChanged of task"),
        ([interrupted(2)], "TaskInterrupted of task digits-1.0 is not legal now"),
        ([report(1, 0.5)] * 2, "MetricReported of task digits-1.0 is not legal now"),
        ([report(1, 0.5, final=True)] * 2, "MetricReported of task digits-1.0 is not legal now"),
        ([report(1, 0.5, interrupts=1)], "MetricReported of task digits-1.0 is not legal now"),
        ([recall()], "TaskRecallRequested of task digits-1.0 is not legal now"),
        ([preemption(), preemption()], "TaskPreemptionRequested of task digits-1.0 is not legal now"),
        ([unschedulable()], "TaskUnschedulable of task digits-1.0 is not legal now"),
        ([assigned()], "is assigned after attempt 1 placement 1"),
        ([assigned(placement=2), report(0, 0.5)], "counts after attempt 1 placement 2 was there"),
        ([ended(AttemptEnd.FAILED), assigned(attempt=2)], "is tried again, beyond its policy of retries"),
        ([submitted()], "task digits-1.0 is submitted twice"),
        ([TaskHeld(task_id="digits-1.0", hold=1)] * 2, "TaskHeld of task digits-1.0 is not legal now"),
        ([TaskStopRequested(task_id="digits-1.0", reason="user")] * 2, "is asked to stop twice"),
        ([ANNOTATED, ANNOTATED], "command c-1 has annotated the stream twice"),
        ([over(0)], "trial 0 ends before its task"),
        ([SearchEnded(status=SearchStatus.DONE, trials=1)], "trials that go on: 0; more may come: True"),
    ],
)
def test_a_fold_that_applies_too_much_is_found(events: Sequence[Event], message: str) -> None:
    told = after(task_active(), *events)
    assert any(message in text for _, text in found(told)), found(told)


def test_a_time_limit_that_is_not_due_and_a_writer_of_another_role_are_found() -> None:
    told = task_active(run_timeout_s=60.0)
    early = TimeLimitReached(task_id="digits-1.0", attempt=1, limit="run", due_ms=told.now_ms - 1 + 60_000)
    told.tell(early)
    told.tell(ended(), role="dispatcher")
    said = [each.message for each in verified(told.records, lax()).findings.found]
    assert "the run limit of task digits-1.0 is reached before it was due" in said
    assert any("AttemptEnded is applied though dispatcher wrote it" in text for text in said)


@pytest.mark.parametrize("say", [checkpointed, resumed])
def test_a_placement_that_has_not_begun_saves_and_continues_nothing(say: Callable[..., Event]) -> None:
    told = task_active(retry={"failed": 3})
    _again(told)
    told.tell(say(1, attempt=2))
    assert any("is not of a placement that runs" in text for _, text in found(told))


def test_a_service_that_is_placed_before_it_may_be_and_a_device_that_no_task_needs_are_found() -> None:
    told = task_active(service={})
    _again(told)
    assert any("before it may be" in text for _, text in found(told))
    told = task_active(service={})
    fail(told)
    told.tell(ended(AttemptEnd.FAILED, attempt=2))
    told.next_offset += 12_000
    told.tell(assigned(attempt=3))
    assert any("before it may be" in text for _, text in found(told))
    told = task_active(resources={"devices": 0})
    assert [invariant for invariant, _ in found(told)] == ["INV-4"]
