"""A task's life, transition by transition, and what its state does not permit."""

from typing import Any

import pytest

from tests.unit.domain.given import (
    APPLIED,
    DUPLICATE,
    FIRST_MS,
    OVERTAKEN,
    Told,
    assigned,
    begun,
    ended,
    report,
    search_running,
    status,
    submitted,
    suggested,
    task_active,
    task_id,
    task_queued,
    token,
)
from trackside.contracts.tasks.resources import Needs, Retry, RetryPolicy
from trackside.contracts.tasks.tasks import (
    AttemptEnd,
    AttemptEnded,
    TaskError,
    TaskRefused,
    TaskStatus,
    TaskStopRequested,
)
from trackside.domain.folding.streams import dump
from trackside.domain.outcome import Outcome
from trackside.domain.tasks.task import TaskState


def refused(**which: Any) -> TaskRefused:
    return TaskRefused(**token(**which), code="device_busy", message="")


def stop(reason: str = "user") -> TaskStopRequested:
    return TaskStopRequested.model_validate({"task_id": task_id(0), "reason": reason})


def test_t1_a_status_is_found_by_number_name_or_itself_and_is_unknown_otherwise() -> None:
    first = ["UNKNOWN", "INIT", "AVAILABLE", "LOADING", "WAITING"]
    names = [*first, "TRAINING", "FINISHED", "EXITED", "EXCEPTION", "INTERRUPT"]
    assert [(known.name, int(known)) for known in TaskStatus] == list(zip(names, range(10), strict=True))
    for known in TaskStatus:
        assert TaskStatus.of(known) is TaskStatus.of(int(known)) is TaskStatus.of(known.name) is known
    for strange in (10, -1, "training", "", None, True, 5.0, [5]):
        assert TaskStatus.of(strange) is TaskStatus.UNKNOWN


def test_a_submitted_task_waits_until_it_is_placed_once_and_in_turn() -> None:
    told = task_queued()
    task = told.task()
    assert (task.state, task.place, task.attempt.number) == (TaskState.QUEUED, None, 1)
    assert (task.queued_at, task.attempt.placement) == ((FIRST_MS + 4, 3, 4), 0)
    assert told.tell(assigned(placement=2)) == told.tell(assigned(attempt=2)) == OVERTAKEN
    assert told.tell(submitted(0)) == DUPLICATE
    placed_ms = told.now_ms
    assert told.tell(assigned()) == APPLIED
    assert told.tell(assigned(incarnation="i-2")) == told.tell(submitted(0)) == DUPLICATE
    assert told.tell(assigned(placement=2)) == OVERTAKEN
    assert task.state is TaskState.PLACED and task.place is not None
    assert (task.place.worker_id, task.place.incarnation, task.place.device_ids) == ("w1", "i-1", ["cpu-0"])
    assert (task.attempt.placement, task.attempt.assigned_ms) == (1, placed_ms)


def test_tasks_that_request_the_same_share_what_they_request() -> None:
    told = search_running()
    for trial in range(2):
        told.tell(suggested(trial), submitted(trial, needs=Needs(priority=7)))
    first, second = told.task(0), told.task(1)
    assert first.needs is second.needs
    assert first.needs.priority == 7
    assert first.attempt.reserved is second.attempt.reserved
    assert task_queued().task().needs.priority == 5


@pytest.mark.parametrize("which", [{"incarnation": "i-0"}, {"placement": 2}, {"attempt": 2}], ids=str)
def test_only_the_placement_that_holds_is_believed(which: dict[str, Any]) -> None:
    told = task_queued()
    assert told.tell(begun()) == told.tell(ended()) == told.tell(refused()) == OVERTAKEN, "there is none"
    told.tell(assigned())
    assert told.tell(report(1, 0.5)) == told.tell(status(TaskStatus.LOADING)) == OVERTAKEN, "not begun"
    for event in (begun(**which), ended(**which), refused(**which)):
        assert told.tell(event) == OVERTAKEN
    assert told.task().state is TaskState.PLACED
    assert told.each(begun(), begun(), refused()) == APPLIED + DUPLICATE + OVERTAKEN
    for later in (begun(**which), status(TaskStatus.FINISHED, **which), ended(**which)):
        assert told.tell(later) == OVERTAKEN
    assert told.task().state is TaskState.ACTIVE


def test_a_refused_placement_goes_back_to_the_queue_with_its_place_in_it() -> None:
    told = task_queued()
    queued_at = told.task().queued_at
    told.tell(assigned())
    assert told.each(refused(), refused()) == APPLIED + OVERTAKEN
    task = told.task()
    assert (task.state, task.place, task.queued_at) == (TaskState.QUEUED, None, queued_at)
    assert told.each(assigned(), assigned(placement=2)) == DUPLICATE + APPLIED
    assert (task.attempt.number, task.attempt.placement, len(task.attempts)) == (1, 2, 1)


def test_phases_only_go_forward() -> None:
    told = task_active()
    assert told.each(status(TaskStatus.LOADING), status(TaskStatus.LOADING)) == APPLIED + DUPLICATE
    assert told.each(status(TaskStatus.TRAINING), status(TaskStatus.WAITING)) == APPLIED + DUPLICATE
    assert told.task().attempt.status is TaskStatus.TRAINING


def test_reports_count_by_their_step_and_the_final_one_once() -> None:
    told = task_active()
    assert told.tell(report(1, 0.5)) == APPLIED
    assert told.tell(report(1, 0.9)) == told.tell(report(0, 0.9)) == DUPLICATE
    assert told.tell(report(3, None)) == told.tell(report(3, 0.7, final=True)) == APPLIED
    assert told.tell(report(4, 0.8, final=True)) == DUPLICATE
    assert told.tell(report(5, 0.8, attempt=2)) == told.tell(report(5, 0.8, placement=2)) == OVERTAKEN
    task = told.task()
    assert (task.reports, task.final, task.has_final) == ([(1, 0.5), (3, None)], 0.7, True)
    told = task_active()
    assert told.tell(report(1, None, final=True)) == APPLIED, "without a value, it is the final one"
    assert told.tell(report(1, 0.5, final=True)) == DUPLICATE
    assert (told.task().has_final, told.task().final) == (True, None)


@pytest.mark.parametrize(
    ("end", "last"),
    [(AttemptEnd.FINISHED, TaskStatus.FINISHED), (AttemptEnd.FAILED, TaskStatus.EXCEPTION)],
)
def test_the_end_of_the_last_attempt_is_the_end_of_the_task(end: AttemptEnd, last: TaskStatus) -> None:
    told = task_active()
    error = TaskError(stage="TRAIN", type="ValueError", message="no")
    event = AttemptEnded(
        **token(), end=end, result={"epochs": 3}, error=error, load_time_ms=5, train_time_ms=9, exit_code=1
    )
    assert told.tell(event) == APPLIED
    task = told.task()
    assert (task.state, task.end, task.result, task.place) == (TaskState.ENDED, end, {"epochs": 3}, None)
    assert (task.attempt.status, task.attempt.error, task.attempt.exit_code) == (last, error, 1)
    assert (task.attempt.load_time_ms, task.attempt.train_time_ms) == (5, 9)
    assert task.ended_ms == task.attempt.ended_ms == FIRST_MS + told.next_offset - 1


def test_nothing_moves_a_task_that_has_ended_or_that_nobody_submitted() -> None:
    told = task_active()
    told.tell(ended())
    before = dump(told.stream)
    over = (ended(), begun(), assigned(placement=2), refused(), stop(), report(1, 0.5), submitted(0))
    for event in (*over, assigned(3), begun(3), ended(trial=3), report(0, 1.0, 3), submitted(3)):
        assert told.tell(event) == OVERTAKEN
    assert dump(told.stream) == before


def test_a_lost_attempt_is_followed_by_the_next_one_at_the_end_of_the_queue() -> None:
    told = task_active()
    told.each(report(1, 0.5), report(1, 0.5, final=True))
    assert told.tell(ended(AttemptEnd.LOST), role="scheduler") == APPLIED
    task = told.task()
    assert (task.state, task.place) == (TaskState.QUEUED, None)
    assert (task.attempt.number, task.attempt.placement) == (2, 0)
    assert (task.reports, task.final, task.has_final) == ([], None, False)
    assert task.queued_at == (FIRST_MS + told.next_offset - 1, 3, told.next_offset - 1)
    assert (task.attempts[0].end, task.attempts[0].status) == (AttemptEnd.LOST, TaskStatus.EXITED)


def zombie(told: Told) -> set[Outcome]:
    reports = (report(2, 0.1), report(2, 0.1, final=True))
    events = (begun(), status(TaskStatus.TRAINING), *reports, ended(), refused())
    return {outcome for event in events for outcome in told.tell(event)}


def test_what_the_worker_of_a_lost_attempt_says_later_changes_nothing() -> None:
    told = task_active()
    told.tell(ended(AttemptEnd.LOST), role="scheduler")
    for then in (None, assigned(attempt=2, incarnation="i-2"), begun(attempt=2, incarnation="i-2")):
        if then is not None:
            assert told.tell(then) == APPLIED
        before = dump(told.stream)
        assert (zombie(told), dump(told.stream)) == ({Outcome.OVERTAKEN}, before)
    assert told.tell(ended(attempt=2, incarnation="i-2")) == APPLIED
    assert [attempt.end for attempt in told.task().attempts] == [AttemptEnd.LOST, AttemptEnd.FINISHED]


def test_a_task_that_waits_or_is_refused_is_cancelled_at_once() -> None:
    told = task_queued()
    assert told.tell(stop()) == APPLIED
    task = told.task()
    assert task.state is TaskState.ENDED
    assert task.end is task.attempt.end is AttemptEnd.CANCELLED
    assert told.tell(assigned()) == OVERTAKEN
    told = task_queued()
    told.each(assigned(), stop())
    assert told.tell(refused()) == APPLIED
    assert (told.task().state, told.task().end) == (TaskState.ENDED, AttemptEnd.CANCELLED)


@pytest.mark.parametrize("active", [False, True])
def test_a_task_that_has_a_device_ends_by_its_worker_s_word(active: bool) -> None:
    told = task_queued()
    told.tell(assigned())
    if active:
        told.tell(begun())
    assert told.each(stop("assessor"), stop("user")) == APPLIED + DUPLICATE
    task = told.task()
    assert (task.state is not TaskState.ENDED, task.stop_reason) == (True, "assessor")
    assert told.tell(ended(AttemptEnd.CANCELLED)) == APPLIED
    assert (task.state, task.end) == (TaskState.ENDED, AttemptEnd.CANCELLED)


def test_a_task_told_to_stop_is_never_tried_again() -> None:
    for end in (AttemptEnd.FINISHED, AttemptEnd.FAILED, AttemptEnd.LOST):
        told = task_active(retry=RetryPolicy(lost=Retry(times=5), failed=Retry(times=5)))
        told.each(stop(), ended(end))
        expected = end if end is AttemptEnd.FINISHED else AttemptEnd.CANCELLED
        assert (told.task().end, len(told.task().attempts)) == (expected, 1)
