"""A task: where it waits or runs, its attempts and its end. Drawn in ARCHITECTURE.md.

queued -> placed -> active -> ended        an attempt that was refused goes back to queued, or is cancelled
   ^________|__________|                   an attempt that may be retried too, as the next attempt
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, get_args

from trackside.contracts.message import Record
from trackside.contracts.tasks import (
    AttemptEnd,
    AttemptEnded,
    MetricReported,
    RetryPolicy,
    TaskAccepted,
    TaskAssigned,
    TaskError,
    TaskRefused,
    TaskStatus,
    TaskStatusChanged,
    TaskStopRequested,
    TaskSubmitted,
)
from trackside.domain.outcome import Outcome

TaskEvent = (
    TaskSubmitted
    | TaskStopRequested
    | TaskAssigned
    | TaskAccepted
    | TaskRefused
    | TaskStatusChanged
    | MetricReported
    | AttemptEnded
)
KINDS = frozenset(get_args(TaskEvent))
"""The same, to ask quickly whether a message is one."""


class TaskState(StrEnum):
    """Where a task is: `placed` has a device, `active` is in its worker's journal."""

    QUEUED = "queued"
    PLACED = "placed"
    ACTIVE = "active"
    ENDED = "ended"


@dataclass(slots=True)
class Place:
    """The placement that holds now: the device, and the incarnation of its worker."""

    worker_id: str
    incarnation: str
    device_id: str


@dataclass(slots=True)
class Attempt:
    """One try of a task; times are the log's, in ms since 1970, 0 for not yet."""

    number: int
    placement: int = 0
    worker_id: str = ""
    device_id: str = ""
    status: TaskStatus = TaskStatus.INIT
    assigned_ms: int = 0
    accepted_ms: int = 0
    ended_ms: int = 0
    load_time_ms: int = -1
    train_time_ms: int = -1
    end: AttemptEnd | None = None
    error: TaskError | None = None
    exit_code: int | None = None


@dataclass(slots=True)
class Task:
    """A task as the log has it. `queued_at` orders the queue: (append time, partition, offset)."""

    task_id: str
    task_type: str
    parameters: dict[str, Any]
    trial: int | None
    queue: str
    retry: RetryPolicy
    queued_at: tuple[int, int, int]
    traceparent: str = ""
    state: TaskState = TaskState.QUEUED
    attempts: list[Attempt] = field(default_factory=lambda: [Attempt(1)])
    place: Place | None = None
    stop_reason: str = ""
    reports: list[tuple[int, float | None]] = field(default_factory=list)
    final: float | None = None
    has_final: bool = False
    end: AttemptEnd | None = None
    result: dict[str, Any] | None = None
    ended_ms: int = 0

    @property
    def attempt(self) -> Attempt:
        """The attempt that counts now."""
        return self.attempts[-1]


def submitted(event: TaskSubmitted, record: Record) -> Task:
    """Makes the task of a TaskSubmitted event."""
    return Task(
        task_id=event.task_id,
        task_type=event.task_type,
        parameters=event.parameters,
        trial=event.trial,
        queue=event.queue,
        retry=event.retry,
        queued_at=(record.append_time_ms, record.partition, record.offset),
        traceparent=record.envelope.traceparent,
    )


def evolve(task: Task, record: Record) -> Outcome:
    """Folds one event into the task it names; changes the task only if it returns APPLIED."""
    event = record.message
    if task.state is TaskState.ENDED:
        return Outcome.OVERTAKEN
    match event:  # the frequent ones first: a class pattern that doesn't match costs 0.3 us
        case TaskStatusChanged():
            return _status_changed(task, event)
        case MetricReported():
            return _reported(task, event)
        case TaskAssigned():
            return _assigned(task, event, record)
        case TaskAccepted():
            return _accepted(task, event, record)
        case AttemptEnded():
            return _attempt_ended(task, event, record)
        case TaskSubmitted():
            return Outcome.DUPLICATE
        case TaskStopRequested():
            return _stop_requested(task, event, record)
        case TaskRefused():
            return _refused(task, event, record)
        case _:
            return Outcome.OVERTAKEN


def _is_current(task: Task, event: TaskAccepted | TaskRefused | TaskStatusChanged | AttemptEnded) -> bool:
    return (
        task.place is not None
        and task.place.incarnation == event.incarnation
        and task.attempt.number == event.attempt
        and task.attempt.placement == event.placement
    )


def _stop_requested(task: Task, event: TaskStopRequested, record: Record) -> Outcome:
    if task.stop_reason:
        return Outcome.DUPLICATE
    task.stop_reason = event.reason
    if task.state is TaskState.QUEUED:
        _cancel(task, record)
    return Outcome.APPLIED


def _assigned(task: Task, event: TaskAssigned, record: Record) -> Outcome:
    attempt = task.attempt
    if attempt.number == event.attempt and attempt.placement >= event.placement:
        return Outcome.DUPLICATE
    follows = attempt.number == event.attempt and attempt.placement == event.placement - 1
    if task.state is not TaskState.QUEUED or not follows:
        return Outcome.OVERTAKEN
    task.state = TaskState.PLACED
    task.place = Place(event.worker_id, event.incarnation, event.device_id)
    attempt.placement = event.placement
    attempt.worker_id = event.worker_id
    attempt.device_id = event.device_id
    attempt.status = TaskStatus.INIT
    attempt.assigned_ms = record.append_time_ms
    return Outcome.APPLIED


def _accepted(task: Task, event: TaskAccepted, record: Record) -> Outcome:
    if not _is_current(task, event):
        return Outcome.OVERTAKEN
    if task.state is TaskState.ACTIVE:
        return Outcome.DUPLICATE
    task.state = TaskState.ACTIVE
    task.attempt.accepted_ms = record.append_time_ms
    return Outcome.APPLIED


def _refused(task: Task, event: TaskRefused, record: Record) -> Outcome:
    if not _is_current(task, event) or task.state is not TaskState.PLACED:
        return Outcome.OVERTAKEN
    task.state = TaskState.QUEUED
    task.place = None
    if task.stop_reason:
        _cancel(task, record)
    return Outcome.APPLIED


def _status_changed(task: Task, event: TaskStatusChanged) -> Outcome:
    if not _is_current(task, event) or task.state is not TaskState.ACTIVE:
        return Outcome.OVERTAKEN
    if event.status <= task.attempt.status:
        return Outcome.DUPLICATE
    task.attempt.status = event.status
    return Outcome.APPLIED


def _reported(task: Task, event: MetricReported) -> Outcome:
    attempt = task.attempt
    current = attempt.number == event.attempt and attempt.placement == event.placement
    if task.state is not TaskState.ACTIVE or not current:
        return Outcome.OVERTAKEN
    if event.kind == "FINAL":
        if task.has_final:
            return Outcome.DUPLICATE
        task.has_final = True
        task.final = event.value
        return Outcome.APPLIED
    if task.reports and event.step <= task.reports[-1][0]:
        return Outcome.DUPLICATE
    task.reports.append((event.step, event.value))
    return Outcome.APPLIED


def _attempt_ended(task: Task, event: AttemptEnded, record: Record) -> Outcome:
    if not _is_current(task, event):
        return Outcome.OVERTAKEN
    if record.envelope.role == "scheduler" and event.end is not AttemptEnd.LOST:
        return Outcome.OVERTAKEN
    attempt = task.attempt
    attempt.end = event.end
    attempt.error = event.error
    attempt.exit_code = event.exit_code
    attempt.load_time_ms = event.load_time_ms
    attempt.train_time_ms = event.train_time_ms
    attempt.ended_ms = record.append_time_ms
    attempt.status = _last_status(event.end)
    task.place = None
    if _may_retry(task, event.end):
        task.state = TaskState.QUEUED
        task.queued_at = (record.append_time_ms, record.partition, record.offset)
        task.attempts.append(Attempt(attempt.number + 1))
        task.reports.clear()
        task.has_final, task.final = False, None
    else:
        task.result = event.result
        _end(task, AttemptEnd.CANCELLED if _was_stopped(task, event.end) else event.end, record)
    return Outcome.APPLIED


def _last_status(end: AttemptEnd) -> TaskStatus:
    if end is AttemptEnd.FINISHED:
        return TaskStatus.FINISHED
    return TaskStatus.EXCEPTION if end is AttemptEnd.FAILED else TaskStatus.EXITED


def _was_stopped(task: Task, end: AttemptEnd) -> bool:
    """A task that was told to stop is cancelled however its process went, unless it had finished."""
    return bool(task.stop_reason) and end is not AttemptEnd.FINISHED


def _may_retry(task: Task, end: AttemptEnd) -> bool:
    if task.stop_reason:
        return False
    allowed = {AttemptEnd.LOST: task.retry.lost, AttemptEnd.FAILED: task.retry.failed}.get(end, 0)
    return sum(1 for attempt in task.attempts if attempt.end is end) <= allowed


def _cancel(task: Task, record: Record) -> None:
    """Ends a task that waits and shall not run: nobody else will say a word about it."""
    task.attempt.end = AttemptEnd.CANCELLED
    task.attempt.ended_ms = record.append_time_ms
    _end(task, AttemptEnd.CANCELLED, record)


def _end(task: Task, end: AttemptEnd, record: Record) -> None:
    task.state = TaskState.ENDED
    task.end = end
    task.ended_ms = record.append_time_ms
