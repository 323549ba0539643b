"""Which ends are followed by another attempt, when, and with how much memory."""

from typing import Any

import pytest

from tests.unit.domain import given
from trackside.contracts.tasks.resources import Retry, RetryPolicy
from trackside.contracts.tasks.tasks import (
    AttemptEnd,
    AttemptEnded,
    Reservation,
    TaskReturned,
    TaskStatus,
    TaskStopRequested,
    TimeLimitReached,
)
from trackside.domain.outcome import Outcome
from trackside.domain.tasks import retries
from trackside.domain.tasks.retries import raised
from trackside.domain.tasks.task import Attempt, TaskState

END = AttemptEnd


def tried(told: given.Told, end: AttemptEnd, reserved: Reservation | None = None, **said: int) -> None:
    number = told.task().attempt.number
    assigned = given.assigned(attempt=number).model_copy(update={"reserved": reserved or Reservation()})
    told.each(assigned, given.begun(attempt=number))
    assert told.tell(given.ended(end, attempt=number).model_copy(update=said)) == given.APPLIED


@pytest.mark.parametrize(
    ("end", "attempts", "retry"),
    [
        *((END.OOM_HOST, 3, {}), (END.OOM_DEVICE, 3, {}), (END.LOST, 4, {})),
        *((END.LOST, 1, {"lost": 0, "failed": 5}), (END.FAILED, 1, {}), (END.FAILED, 2, {"failed": 1})),
        *((END.TIMED_OUT_RUN, 1, {}), (END.REFUSED, 1, {}), (END.CANCELLED, 1, {"lost": 5, "failed": 5})),
        (END.FINISHED, 1, {"lost": 5, "failed": 5}),
    ],
)
def test_each_end_has_its_number_of_attempts(end: AttemptEnd, attempts: int, retry: dict[str, int]) -> None:
    told = given.task_queued(retry=retry)
    while told.task().state is TaskState.QUEUED:
        tried(told, end)
    assert [attempt.end for attempt in told.task().attempts] == [end] * attempts
    assert told.task().end is end


def test_ends_of_different_kinds_are_counted_apart() -> None:
    told = given.task_queued(retry={"failed": 1})
    for end in (END.OOM_HOST, END.OOM_DEVICE, END.LOST, END.FAILED, END.OOM_HOST, END.OOM_DEVICE):
        tried(told, end)
    assert told.task().state is TaskState.QUEUED
    tried(told, END.OOM_HOST)
    assert told.task().end is END.OOM_HOST


def killed_at_limit(told: given.Told, limit: int, largest: int, end: AttemptEnd = END.OOM_HOST) -> None:
    """Tells one more attempt, killed at a memory limit, where a worker allows `largest` (0: any)."""
    reserved = Reservation(memory_bytes=100, largest_limit_bytes=largest)
    tried(told, end, reserved, limit_bytes=limit, peak_memory_bytes=limit // 2)


def test_a_task_killed_at_the_largest_memory_limit_is_not_tried_again_unless_its_policy_says_so() -> None:
    told = given.task_queued()
    killed_at_limit(told, limit=500, largest=800)
    task = told.task()
    assert task.state is TaskState.QUEUED
    assert task.raised is not None and task.raised.memory_bytes > 500, "not only more than it used"
    assert retries.exceeded_limit(task.needs.retry, task.attempts) == 500
    killed_at_limit(told, limit=800, largest=800)
    assert (task.state, task.end) == (TaskState.ENDED, END.OOM_HOST)
    assert [attempt.limit_bytes for attempt in task.attempts] == [500, 800]
    told = given.task_queued(retry={"oom_host": 1, "at_memory_limit": True})
    killed_at_limit(told, limit=500, largest=500)
    task = told.task()
    assert task.state is TaskState.QUEUED
    assert retries.exceeded_limit(task.needs.retry, task.attempts) == 0, "any worker may run it again"
    killed_at_limit(told, limit=500, largest=500)
    assert told.task().end is END.OOM_HOST


@pytest.mark.parametrize(("limit", "largest", "end"), [(500, 0, END.OOM_HOST), (0, 500, END.LOST)])
def test_a_task_without_a_limit_or_that_was_lost_is_tried_again(limit: int, largest: int, end: Any) -> None:
    told = given.task_queued()
    killed_at_limit(told, limit, largest, end)
    assert told.task().state is TaskState.QUEUED


def test_what_ran_out_of_memory_is_tried_again_with_half_as_much_more_or_a_tenth_over_its_peak() -> None:
    told = given.task_queued()
    tried(told, END.OOM_DEVICE, peak_cuda_memory_bytes=10_000)
    found = told.task().raised
    assert found is not None
    assert (found.cuda_memory_bytes, found.estimated_by) == (11_000, "raised")
    had = Reservation(memory_bytes=100, cuda_memory_bytes=1_000, estimated_by="task")
    assert raised(had, "host", 0).memory_bytes == 150
    more = raised(had, "device", 2_000)
    assert (more.cuda_memory_bytes, more.memory_bytes) == (2_200, 100)


def test_a_retry_waits_longer_each_time_and_every_reader_draws_the_same_jitter() -> None:
    policy = RetryPolicy(failed=Retry(times=9, backoff_s=10.0, factor=3.0, max_backoff_s=60.0, jitter=0.5))
    attempts: list[Attempt] = []
    waits = []
    for number in range(1, 5):
        attempts.append(Attempt(number, end=END.FAILED))
        waits.append(retries.wait_ms(policy, attempts, END.FAILED, "a"))
        assert waits[-1] == retries.wait_ms(policy, list(attempts), END.FAILED, "a")
    for wait_ms, middle_s in zip(waits, (10, 30, 60, 60), strict=True):
        assert middle_s * 500 <= wait_ms <= middle_s * 1_500
    assert waits[0] != retries.wait_ms(policy, attempts[:1], END.FAILED, "b")
    still = RetryPolicy(failed=Retry(times=1, backoff_s=10.0, jitter=0.0))
    assert retries.wait_ms(still, attempts[:1], END.FAILED, "a") == 10_000


def test_nobody_can_place_a_retry_before_its_time() -> None:
    told = given.task_queued(retry={"failed": {"times": 1, "backoff_s": 1.0, "jitter": 0.0}})
    tried(told, END.FAILED)
    assert told.task().not_before_ms == told.now_ms - 1 + 1_000
    assert told.tell(given.assigned(attempt=2)) == given.OVERTAKEN
    told.next_offset += 1_000
    assert told.tell(given.assigned(attempt=2)) == given.APPLIED


def test_t8_an_interrupted_attempt_keeps_its_process_and_counts_as_out_of_memory() -> None:
    told = given.task_active()
    told.each(given.status(TaskStatus.TRAINING), given.report(0, 0.5))
    assert told.each(given.interrupted(1), given.interrupted(1)) == given.APPLIED + given.DUPLICATE
    task = told.task()
    assert (task.state, task.attempt.status, task.reports) == (TaskState.ACTIVE, TaskStatus.INTERRUPT, [])
    assert (task.raised, retries.interrupts_left(task)) == (task.attempt.reserved, 1)
    assert told.tell(given.report(1, 0.5)) == given.OVERTAKEN
    for phase in (TaskStatus.WAITING, TaskStatus.TRAINING):
        assert told.tell(given.status(phase, interrupts=1)) == given.APPLIED
    assert told.tell(given.report(0, 0.5, interrupts=1)) == given.APPLIED
    told.tell(given.interrupted(2))
    assert told.tell(given.ended(END.OOM_DEVICE)) == given.APPLIED
    assert told.task().end is END.OOM_DEVICE


def test_a_preempted_attempt_waits_again_where_it_was_and_is_no_further_attempt() -> None:
    told = given.task_active()
    queued_at = told.task().queued_at
    told.tell(given.report(0, 0.5))
    assert told.each(given.preemption(), given.preemption()) == given.APPLIED + given.DUPLICATE
    assert told.tell(given.ended(END.PREEMPTED)) == given.APPLIED
    task = told.task()
    assert (task.state, task.attempt.number, task.queued_at) == (TaskState.QUEUED, 1, queued_at)
    assert [(past.placement, past.end) for past in task.attempt.past] == [(1, "preempted")]
    assert told.tell(given.assigned(placement=2)) == given.APPLIED
    assert task.attempt.stopping is None


@pytest.mark.parametrize("finished", [True, False])
def test_a_preempted_task_that_has_finished_or_was_told_to_stop_does_not_wait_again(finished: bool) -> None:
    told = given.task_active()
    told.tell(given.preemption())
    if not finished:
        told.tell(TaskStopRequested(task_id=told.task().task_id, reason="user"))
    assert told.tell(given.ended(END.FINISHED if finished else END.PREEMPTED)) == given.APPLIED
    assert told.task().end is (END.FINISHED if finished else END.CANCELLED)


def test_a_placement_is_given_back_only_while_it_has_not_begun() -> None:
    told = given.task_queued()
    told.tell(given.assigned())
    assert told.each(given.recall(), given.recall()) == given.APPLIED + given.DUPLICATE
    assert told.tell(TaskReturned(**given.token())) == given.APPLIED
    assert told.task().state is TaskState.QUEUED
    told.each(given.assigned(placement=2), given.begun(placement=2))
    assert told.tell(given.recall(placement=2)) == given.OVERTAKEN
    assert told.tell(TaskReturned(**given.token(placement=2))) == given.OVERTAKEN


def limit(told: given.Told, kind: str, due_ms: int) -> list[Outcome]:
    fields = {"task_id": told.task().task_id, "attempt": 1, "limit": kind, "due_ms": due_ms}
    return told.tell(TimeLimitReached.model_validate(fields))


def test_a_task_that_waited_too_long_ends_and_a_fast_clock_wins_nothing() -> None:
    told = given.task_queued(queue_timeout_s=1.0)
    due_ms = told.task().queued_at[0] + 1_000
    assert (told.task().due_ms, limit(told, "queue", due_ms)) == (due_ms, given.OVERTAKEN)
    told.next_offset += 1_000
    assert limit(told, "queue", due_ms - 500) == given.OVERTAKEN
    assert (limit(told, "run", due_ms), limit(told, "queue", due_ms)) == (given.OVERTAKEN, given.APPLIED)
    assert (told.task().state, told.task().end) == (TaskState.ENDED, END.TIMED_OUT_QUEUE)


def test_an_attempt_that_ran_too_long_is_stopped_by_its_worker() -> None:
    told = given.task_active(run_timeout_s=1.0)
    due_ms = told.task().attempt.accepted_ms + 1_000
    told.next_offset += 1_000
    assert limit(told, "run", due_ms) == given.APPLIED
    task = told.task()
    assert (task.state, task.attempt.stopping, task.due_ms) == (TaskState.ACTIVE, END.TIMED_OUT_RUN, None)
    told.tell(given.ended(END.TIMED_OUT_RUN))
    assert task.end is END.TIMED_OUT_RUN


def test_the_scheduler_ends_an_attempt_as_lost_or_as_refused_by_every_worker_and_as_nothing_else() -> None:
    told = given.task_queued()
    told.tell(given.assigned())
    assert told.tell(given.ended(END.REFUSED), role="scheduler") == given.OVERTAKEN
    told.each(given.recall(), TaskReturned(**given.token()))
    assert told.tell(given.ended(END.REFUSED, placement=2), role="scheduler") == given.OVERTAKEN
    assert told.tell(given.ended(END.REFUSED), role="scheduler") == given.APPLIED
    assert told.task().end is END.REFUSED
    told = given.task_active()
    for end in END:
        if end not in (END.LOST, END.REFUSED):
            assert told.tell(given.ended(end), role="scheduler") == given.OVERTAKEN
    assert told.task().ended_ms == 0
    assert AttemptEnded.written_by == {"worker", "scheduler"}
