"""What each event does to a task: the guards that every reader folds with."""

from collections.abc import Callable, Mapping
from typing import Any, get_args

from trackside.contracts.envelope.message import Message, Record
from trackside.contracts.tasks.artifacts import ArtifactSaved, TaskResumed
from trackside.contracts.tasks.instructions import InstructionAcknowledged, InstructionGiven, TaskReady
from trackside.contracts.tasks.tasks import (
    AttemptAdopted,
    AttemptEnd,
    AttemptEnded,
    MetricReported,
    ParametersRequested,
    ParametersTaken,
    ParametersWithheld,
    TaskAccepted,
    TaskAssigned,
    TaskContinued,
    TaskHeld,
    TaskInterrupted,
    TaskPreemptionRequested,
    TaskRecallRequested,
    TaskRefused,
    TaskReleased,
    TaskReturned,
    TaskStatus,
    TaskStatusChanged,
    TaskStopRequested,
    TaskSubmitted,
    TaskUnschedulable,
    TimeLimitReached,
)
from trackside.domain.outcome import Outcome
from trackside.domain.tasks import (
    reports,
    retries,
    task_artifacts,
    task_causes,
    task_instructions,
    task_reuse,
)
from trackside.domain.tasks.retries import raised
from trackside.domain.tasks.task import Attempt, PastPlacement, Place, Task, TaskState, last_status, shared
from trackside.domain.tasks.task_acceptance import accepted, adopted

TaskEvent = (
    TaskSubmitted
    | TaskStopRequested
    | TaskHeld
    | TaskReleased
    | TaskAssigned
    | TaskUnschedulable
    | TaskPreemptionRequested
    | TaskRecallRequested
    | TimeLimitReached
    | TaskAccepted
    | AttemptAdopted
    | TaskRefused
    | TaskReturned
    | TaskInterrupted
    | TaskStatusChanged
    | ParametersRequested
    | ParametersWithheld
    | TaskContinued
    | ParametersTaken
    | MetricReported
    | ArtifactSaved
    | TaskResumed
    | InstructionGiven
    | InstructionAcknowledged
    | TaskReady
    | AttemptEnded
)
_OfPlacement = TaskRefused | TaskReturned | TaskInterrupted | TaskStatusChanged | AttemptEnded
KINDS = frozenset(get_args(TaskEvent))
"""The same, to ask quickly whether a message is one."""

_SCHEDULERS_ENDS = frozenset({AttemptEnd.LOST, AttemptEnd.REFUSED})


def _is_current(task: Task, event: _OfPlacement) -> bool:
    return task.has_placement(event.attempt, event.placement, event.incarnation)


def task_of(message: Message) -> str:
    """Names the task that an event is about, empty for none; to ask an event for what it lacks is slow."""
    return message.task_id if type(message) in KINDS else ""  # type: ignore[attr-defined]


def submitted(event: TaskSubmitted, record: Record) -> Task:
    """Makes the task of a TaskSubmitted event."""
    return Task(
        task_id=event.task_id,
        task_type=event.task_type,
        parameters=event.parameters,
        part=event.part,
        needs=shared(event.needs),
        queued_at=(record.append_time_ms, record.partition, record.offset),
        traceparent=record.envelope.traceparent,
        estimated_by=event.estimated_by,
        inputs=event.inputs,
        checkpoint=event.checkpoint,
        step_limit=event.step_limit,
        changed_at=record.offset,
    )


def evolve(task: Task, record: Record) -> Outcome:
    """Folds one event into the task it names; changes the task only if it returns APPLIED."""
    if task.state is TaskState.ENDED:
        return Outcome.OVERTAKEN
    outcome = _evolve(task, record)
    if outcome is Outcome.APPLIED:
        task_causes.note(task, type(record.message), record.offset)
    return outcome


def _evolve(task: Task, record: Record) -> Outcome:
    event = record.message
    if type(event) is TaskStatusChanged:  # the most frequent ones first
        return _status_changed(task, event)
    if type(event) is MetricReported:
        return reports.reported(task, event)
    fold = _FOLDS.get(type(event))
    return Outcome.OVERTAKEN if fold is None else fold(task, event, record)


def _stop_requested(task: Task, event: TaskStopRequested, record: Record) -> Outcome:
    if task.stop_reason:
        return Outcome.DUPLICATE
    if event.due_ms is not None and record.append_time_ms < event.due_ms:
        return Outcome.OVERTAKEN
    if event.attempt is not None and event.attempt != task.attempt.number:
        return Outcome.OVERTAKEN  # that attempt has failed, and what it reported is gone with it
    task.stop_reason = event.reason
    if task.state is TaskState.QUEUED:
        _end_waiting(task, AttemptEnd.CANCELLED, record)
    return Outcome.APPLIED


def _held(task: Task, event: TaskHeld) -> Outcome:
    if event.hold <= task.holds:
        return Outcome.DUPLICATE
    if task.held or event.hold != task.holds + 1 or task.stop_reason:
        return Outcome.OVERTAKEN
    task.held, task.holds = True, event.hold
    if task.place is not None and task.attempt.stopping is None:
        task.attempt.stopping = AttemptEnd.PREEMPTED
    return Outcome.APPLIED


def _released(task: Task, event: TaskReleased, record: Record) -> Outcome:
    if not task.held or event.hold != task.holds:
        return Outcome.OVERTAKEN
    task.held = False
    # A wait in the queue begins anew: its limit shall not count the time in which nothing could be done.
    task.not_before_ms = max(task.not_before_ms, record.append_time_ms)
    return Outcome.APPLIED


def _assigned(task: Task, event: TaskAssigned, record: Record) -> Outcome:
    attempt = task.attempt
    if attempt.number == event.attempt and attempt.placement >= event.placement:
        return Outcome.DUPLICATE
    follows = attempt.number == event.attempt and attempt.placement == event.placement - 1
    early = task.held or record.append_time_ms < task.not_before_ms
    if task.state is not TaskState.QUEUED or not follows or early:
        return Outcome.OVERTAKEN
    task.state = TaskState.PLACED
    task.place = Place(event.worker_id, event.incarnation, event.device_ids)
    task.unschedulable = ""
    attempt.placement = event.placement
    attempt.worker_id = event.worker_id
    attempt.incarnations = (event.incarnation,)
    attempt.device_ids = event.device_ids
    attempt.reserved = event.reserved
    attempt.behind = event.behind
    attempt.recalled = False
    attempt.stopping = None
    attempt.status = attempt.reached = TaskStatus.INIT
    attempt.assigned_ms = record.append_time_ms
    attempt.accepted_ms = 0
    task_reuse.reset_requests(task)
    task_artifacts.begin_placement(task)
    return Outcome.APPLIED


def _given_back(
    task: Task, event: TaskRefused | TaskReturned, record: Record, end: str, code: str = "", message: str = ""
) -> Outcome:
    if not _is_current(task, event) or task.state is not TaskState.PLACED:
        return Outcome.OVERTAKEN
    _requeue(task, record, end, code, message)
    return Outcome.APPLIED


def _requeue(task: Task, record: Record, end: str, code: str = "", message: str = "") -> None:
    """Puts the same attempt back where it was in the queue."""
    attempt = task.attempt
    attempt.past.append(
        PastPlacement(
            placement=attempt.placement,
            worker_id=attempt.worker_id,
            device_ids=attempt.device_ids,
            end=end,
            assigned_ms=attempt.assigned_ms,
            accepted_ms=attempt.accepted_ms,
            ended_ms=record.append_time_ms,
            code=code,
            message=message,
            resumed=attempt.resumed,
        )
    )
    attempt.stopping = None
    attempt.recalled = attempt.behind = False
    attempt.status = attempt.reached = TaskStatus.INIT
    task.state = TaskState.QUEUED
    task.place = None
    reports.forget(task)
    if task.stop_reason or task.idle:
        _end_waiting(task, AttemptEnd.CANCELLED, record)


def _recall_requested(task: Task, event: TaskRecallRequested) -> Outcome:
    attempt = task.attempt
    names = (attempt.number, attempt.placement) == (event.attempt, event.placement)
    if task.state is not TaskState.PLACED or not names:
        return Outcome.OVERTAKEN
    if attempt.recalled:
        return Outcome.DUPLICATE
    attempt.recalled = True
    return Outcome.APPLIED


def _preemption_requested(task: Task, event: TaskPreemptionRequested) -> Outcome:
    attempt = task.attempt
    names = (attempt.number, attempt.placement) == (event.attempt, event.placement)
    if task.place is None or not names or task.stop_reason:
        return Outcome.OVERTAKEN
    if attempt.stopping is not None:
        return Outcome.DUPLICATE
    attempt.stopping = AttemptEnd.PREEMPTED
    return Outcome.APPLIED


def _time_limit_reached(task: Task, event: TimeLimitReached, record: Record) -> Outcome:
    waits = task.state is TaskState.QUEUED
    is_due = event.due_ms == task.due_ms and record.append_time_ms >= event.due_ms
    if not is_due or event.attempt != task.attempt.number or event.limit != ("queue" if waits else "run"):
        return Outcome.OVERTAKEN
    if waits:
        _end_waiting(task, AttemptEnd.TIMED_OUT_QUEUE, record)
    else:
        task.attempt.stopping = AttemptEnd.TIMED_OUT_RUN
    return Outcome.APPLIED


def _unschedulable(task: Task, event: TaskUnschedulable) -> Outcome:
    if task.state is not TaskState.QUEUED or event.attempt != task.attempt.number:
        return Outcome.OVERTAKEN
    if event.number <= task.attempt.unschedulable:
        return Outcome.DUPLICATE
    task.attempt.unschedulable = event.number
    task.unschedulable = event.message
    return Outcome.APPLIED


def _status_changed(task: Task, event: TaskStatusChanged) -> Outcome:
    if not _is_current(task, event) or task.state is not TaskState.ACTIVE:
        return Outcome.OVERTAKEN
    if event.interrupts != task.attempt.interrupted:
        return Outcome.OVERTAKEN
    if event.status <= task.attempt.reached:
        return Outcome.DUPLICATE
    task.attempt.status = task.attempt.reached = event.status
    return Outcome.APPLIED


def _interrupted(task: Task, event: TaskInterrupted) -> Outcome:
    attempt = task.attempt
    if not _is_current(task, event) or task.state is not TaskState.ACTIVE:
        return Outcome.OVERTAKEN
    if event.interrupt != attempt.interrupted + 1:
        return Outcome.DUPLICATE
    attempt.interrupts[event.resource] = attempt.interrupts.get(event.resource, 0) + 1
    attempt.status, attempt.reached = TaskStatus.INTERRUPT, TaskStatus.LOADING
    attempt.reserved = task.raised = event.reserved
    attempt.resumed = None
    reports.forget(task)
    return Outcome.APPLIED


def _attempt_ended(task: Task, event: AttemptEnded, record: Record) -> Outcome:
    by_scheduler = record.envelope.role == "scheduler"
    if by_scheduler and event.end not in _SCHEDULERS_ENDS:
        return Outcome.OVERTAKEN
    if by_scheduler and event.end is AttemptEnd.REFUSED:
        return _given_up(task, event, record)
    if not _is_current(task, event):
        return Outcome.OVERTAKEN
    attempt = task.attempt
    if event.end is AttemptEnd.PREEMPTED:
        _requeue(task, record, "preempted")
        return Outcome.APPLIED
    attempt.end = event.end
    attempt.error = event.error
    attempt.exit_code = event.exit_code
    attempt.load_time_ms = event.load_time_ms
    attempt.train_time_ms = event.train_time_ms
    # In older logs a peak counts what the worker had loaded for all tasks: nothing is learned from it.
    attempt.peak_memory_bytes = event.peak_memory_bytes if event.memory_measure == "own" else 0
    attempt.peak_cuda_memory_bytes = event.peak_cuda_memory_bytes
    attempt.limit = event.limit
    attempt.limit_bytes = event.limit_bytes
    attempt.leftovers = event.leftovers
    attempt.ended_ms = record.append_time_ms
    attempt.status = last_status(event.end)
    task.place = None
    if event.end is AttemptEnd.OOM_HOST:
        # What was measured may be less than the limit that it was killed at.
        used_bytes = max(event.peak_memory_bytes, event.limit_bytes)
        task.raised = raised(attempt.reserved, "host", used_bytes)
    elif event.end is AttemptEnd.OOM_DEVICE:
        task.raised = raised(attempt.reserved, "device", event.peak_cuda_memory_bytes)
    if not _try_again(task, event.end, record):
        task.result = event.result
        _end(task, AttemptEnd.CANCELLED if _was_stopped(task, event.end) else event.end, record)
    return Outcome.APPLIED


def _try_again(task: Task, end: AttemptEnd, record: Record) -> bool:
    """Queues the next attempt after an end that allows one; returns whether it does."""
    wait_ms = None if task.stop_reason or task.idle else retries.wait_after(task, end)
    if wait_ms is None:
        return False
    task.not_before_ms = record.append_time_ms + wait_ms
    task.state = TaskState.QUEUED
    task.queued_at = (record.append_time_ms, record.partition, record.offset)
    task.attempts.append(Attempt(task.attempt.number + 1))
    reports.forget(task)
    return True


def _given_up(task: Task, event: AttemptEnded, record: Record) -> Outcome:
    """Ends a task that every worker has refused."""
    follows = (task.attempt.number, task.attempt.placement) == (event.attempt, event.placement)
    if task.state is not TaskState.QUEUED or not follows:
        return Outcome.OVERTAKEN
    attempt = task.attempt
    attempt.error, attempt.end, attempt.ended_ms = event.error, AttemptEnd.REFUSED, record.append_time_ms
    if not _try_again(task, AttemptEnd.REFUSED, record):
        _end(task, AttemptEnd.REFUSED, record)
    return Outcome.APPLIED


def _was_stopped(task: Task, end: AttemptEnd) -> bool:
    """A task that was told to stop is cancelled however its process went, unless it had finished."""
    return bool(task.stop_reason) and end is not AttemptEnd.FINISHED


def _end_waiting(task: Task, end: AttemptEnd, record: Record) -> None:
    """Ends a task that waits and shall not run: nobody else will say a word about it."""
    task.attempt.end = end
    task.attempt.ended_ms = record.append_time_ms
    _end(task, end, record)


def _end(task: Task, end: AttemptEnd, record: Record) -> None:
    task.state = TaskState.ENDED
    task.end = end
    task.ended_ms = record.append_time_ms


_FOLDS: Mapping[type[Message], Callable[[Task, Any, Record], Outcome]] = {
    TaskSubmitted: lambda task, event, record: Outcome.DUPLICATE,
    TaskStopRequested: _stop_requested,
    TaskHeld: lambda task, event, record: _held(task, event),
    TaskReleased: _released,
    TaskAssigned: _assigned,
    TaskUnschedulable: lambda task, event, record: _unschedulable(task, event),
    TaskPreemptionRequested: lambda task, event, record: _preemption_requested(task, event),
    TaskRecallRequested: lambda task, event, record: _recall_requested(task, event),
    TimeLimitReached: _time_limit_reached,
    TaskAccepted: accepted,
    AttemptAdopted: adopted,
    TaskRefused: lambda task, event, record: _given_back(
        task, event, record, "refused", event.code, event.message
    ),
    TaskReturned: lambda task, event, record: _given_back(task, event, record, "returned"),
    TaskInterrupted: lambda task, event, record: _interrupted(task, event),
    ParametersRequested: lambda task, event, record: task_reuse.evolve(task, event),
    ParametersWithheld: lambda task, event, record: task_reuse.evolve(task, event),
    TaskContinued: lambda task, event, record: task_reuse.evolve(task, event),
    ParametersTaken: lambda task, event, record: task_reuse.evolve(task, event),
    ArtifactSaved: task_artifacts.saved,
    TaskResumed: lambda task, event, record: task_artifacts.resumed(task, event),
    InstructionGiven: lambda task, event, record: task_instructions.given(task, event),
    InstructionAcknowledged: lambda task, event, record: task_instructions.acknowledged(task, event),
    TaskReady: task_instructions.ready,
    AttemptEnded: _attempt_ended,
}
"""What folds each event; class patterns would cost 0.3 us for each one that doesn't match."""
