"""Services: tried again for ever, said to be ready, given instructions, and stopped by nobody but users."""

from typing import Any

import pytest

from tests.unit.domain.given import (
    APPLIED,
    DUPLICATE,
    OVERTAKEN,
    Told,
    assigned,
    begun,
    ended,
    over,
    preemption,
    task_active,
    task_id,
    token,
)
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.tasks.instructions import (
    InstructionAcknowledged,
    InstructionGiven,
    InstructTask,
    TaskReady,
)
from trackside.contracts.tasks.tasks import AttemptEnd, TaskStopRequested
from trackside.domain.folding import task_commands
from trackside.domain.folding.streams import dump, load
from trackside.domain.streams.stream import shrink
from trackside.domain.tasks.retries import KEPT_ATTEMPTS
from trackside.domain.tasks.task import TaskState
from trackside.domain.tasks.task_instructions import is_unacknowledged


def ready(number: int = 1, **which: Any) -> TaskReady:
    return TaskReady(**token(**which), number=number, detail={"port": 8_000})


def given(number: int = 1) -> InstructionGiven:
    return InstructionGiven(command_id=f"c-{number}", task_id=task_id(0), number=number, body={"n": number})


def answered(number: int = 1, ok: bool = True, **which: Any) -> InstructionAcknowledged:
    return InstructionAcknowledged(**token(**which), number=number, ok=ok, detail={"sha256": "ab"})


def fail(told: Told, end: AttemptEnd = AttemptEnd.FAILED) -> int:
    """Tells the end of the running attempt and the start of the next; returns how long that waited, ms."""
    number = told.task().attempt.number
    assert told.tell(ended(end, attempt=number)) == APPLIED
    task = told.task()
    assert (task.state, task.attempt.number) == (TaskState.QUEUED, number + 1)
    waited = task.not_before_ms - told.now_ms + 1
    told.next_offset += waited
    assert told.each(assigned(attempt=number + 1), begun(attempt=number + 1)) == APPLIED * 2
    return waited


def test_a_service_is_tried_again_after_each_end_and_waits_longer_each_time() -> None:
    told = task_active(service=True)
    ends = (*(end for end in AttemptEnd if end not in ("preempted", "refused")), AttemptEnd.FAILED)
    waits = [fail(told, end) for end in ends]
    for number, wait in enumerate(waits):
        assert 0.9 <= wait / min(10_000 * 2**number, 360_000) <= 1.1, waits


def test_its_attempts_count_anew_once_it_was_ready_for_ten_minutes() -> None:
    told = task_active(service=True)
    assert [fail(told) > 15_000 for _ in range(3)] == [False, True, True]
    told.tell(ready(attempt=4))
    told.next_offset += 599_000
    assert fail(told) > 60_000
    told.tell(ready(attempt=5))
    told.next_offset += 600_000
    assert fail(told) < 15_000
    assert 15_000 < fail(told) < 25_000


def test_a_service_that_every_worker_has_refused_is_tried_again_too() -> None:
    told = task_active(service=True)
    told.each(preemption(), ended(AttemptEnd.PREEMPTED))
    assert told.tell(ended(AttemptEnd.REFUSED, incarnation=""), role="scheduler") == APPLIED
    assert told.task().state is TaskState.QUEUED
    assert [attempt.end for attempt in told.task().attempts] == [AttemptEnd.REFUSED, None]


@pytest.mark.parametrize("waits", [True, False])
def test_a_service_that_was_asked_to_stop_is_over_and_gets_no_instruction(waits: bool) -> None:
    told = task_active(service=True)
    if waits:
        told.tell(ended(AttemptEnd.FAILED))
    told.tell(TaskStopRequested(task_id=task_id(0), reason="user"))
    assert told.tell(given()) == OVERTAKEN
    assert told.tell(ended(AttemptEnd.CANCELLED)) == (OVERTAKEN if waits else APPLIED)
    assert (told.task().state, told.task().end) == (TaskState.ENDED, AttemptEnd.CANCELLED)


def test_only_the_newest_attempts_of_a_service_are_kept_and_its_waits_stay_the_same() -> None:
    told, kept = task_active(service=True), task_active(service=True)
    waits = []
    for _ in range(3 * KEPT_ATTEMPTS):
        waits.append(fail(told))
        assert fail(kept) == waits[-1]
        shrink(kept.stream)
        assert len(kept.task().attempts) <= KEPT_ATTEMPTS
    assert kept.task().attempt.number == told.task().attempt.number == 3 * KEPT_ATTEMPTS + 1
    shrink(told.stream)
    assert dump(told.stream) == dump(kept.stream)
    assert dump(load(dump(kept.stream), kept.streams.aggregates)) == dump(kept.stream)


def test_ready_counts_for_the_running_placement_of_a_service_only() -> None:
    told = task_active()
    assert told.tell(ready()) == OVERTAKEN
    told = task_active(service=True)
    assert told.each(ready(), ready()) == APPLIED + DUPLICATE
    first_ms = told.task().attempt.ready_ms
    assert (told.tell(ready(2)), told.task().attempt.ready_ms) == (APPLIED, first_ms)
    told.each(preemption(), ended(AttemptEnd.PREEMPTED))
    assert told.tell(ready(3)) == OVERTAKEN
    assert told.tell(assigned(placement=2), begun(placement=2)) == APPLIED * 2
    assert (told.task().attempt.ready_ms, told.task().attempt.ready) == (0, {})
    assert told.tell(ready(3)) == OVERTAKEN


def test_the_newest_instruction_waits_for_each_placement_to_acknowledge_it() -> None:
    told = task_active(service=True)
    assert told.each(answered(), given(1), given(1)) == OVERTAKEN + APPLIED + DUPLICATE
    assert told.each(given(3), given(2), answered(1)) == OVERTAKEN + APPLIED + OVERTAKEN
    assert is_unacknowledged(told.task())
    assert told.each(answered(2, ok=False), answered(2)) == APPLIED + DUPLICATE
    assert told.task().acknowledgement == (False, {"sha256": "ab"})
    assert not is_unacknowledged(told.task())
    fail(told)
    assert is_unacknowledged(told.task())
    assert told.each(answered(2), answered(2, attempt=2)) == OVERTAKEN + APPLIED


def test_an_instruction_is_that_of_the_next_attempt_and_none_is_given_after_the_end() -> None:
    told = task_active(service=True)

    def answer(task: str = task_id(0)) -> list[str]:
        found = task_commands.decide(told.stream, InstructTask(task=task, body={}), "c-1")
        return [each.code if isinstance(each, Problem) else type(each).__name__ for each in found]

    assert (answer(), answer("digits-1.07")) == (["InstructionGiven"], ["unknown_task"])
    told.tell(TaskStopRequested(task_id=task_id(0), reason="user"))
    assert answer() == ["task_over"]
    told.tell(ended(AttemptEnd.CANCELLED), over(0))
    assert answer() == ["task_over"]
    shrink(told.stream)
    assert told.stream.tasks == {}, "it has settled"
    assert answer() == ["task_over"]
    told = task_active(service=True)
    told.tell(ended(AttemptEnd.FAILED))
    assert told.tell(given()) == APPLIED
    assert not is_unacknowledged(told.task())
    assert told.task().instruction is not None
