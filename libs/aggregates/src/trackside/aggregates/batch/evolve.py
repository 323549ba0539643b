"""What each event does to a batch: the guards that every reader folds with."""

from trackside.aggregates.batch.messages import (
    GROUP,
    BatchEnded,
    BatchStarted,
    BatchStatus,
    BatchStopRequested,
    GroupEnded,
    task_name,
)
from trackside.aggregates.batch.state import Batch
from trackside.contracts.envelope.ids import batch_task_id
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.parts import number_of
from trackside.contracts.streams.children import ChildRequested
from trackside.contracts.tasks.tasks import AttemptEnd, TaskSubmitted
from trackside.domain.outcome import Outcome
from trackside.domain.streams.child import Child
from trackside.domain.tasks.task import Task


def begin(batch_id: str, event: BatchStarted, record: Record) -> Batch:
    """Makes the batch of a BatchStarted event."""
    return Batch(batch_id, event.batch, record.append_time_ms, changed_at=record.offset)


def admits(batch: Batch, event: TaskSubmitted) -> bool:
    """Returns whether a task is the next one of the group that runs now."""
    number = batch.next_task
    if number is None or number_of(event.part, GROUP) != batch.group:
        return False
    name = task_name(batch.spec.groups[batch.group].tasks[number], number)
    return event.task_id == batch_task_id(batch.batch_id, batch.group, name)


def admits_child(batch: Batch, event: ChildRequested) -> bool:
    """Returns whether a child is the next one of the group that runs now."""
    number = batch.next_child
    if number is None:
        return False
    child = batch.spec.groups[batch.group].children[number]
    wanted = batch_task_id(batch.batch_id, batch.group, child.name)
    return (event.child_id, event.kind) == (wanted, child.kind)


def note_child(batch: Batch, child: Child, offset: int) -> None:
    """Counts a child that was requested, or has ended, by the event at an offset."""
    if child.open:
        if child.child_id not in batch.open_children:
            batch.begun += 1
            batch.open_children.add(child.child_id)
        return
    batch.changed_at = offset
    batch.open_children.discard(child.child_id)
    end = child.status.lower()
    batch.ends[end] = batch.ends.get(end, 0) + 1


def note_submitted(batch: Batch, task_id: str) -> None:
    """Counts a task that was submitted."""
    batch.submitted += 1
    batch.open.add(task_id)


def note_changed(batch: Batch, task: Task, offset: int) -> None:
    """Counts a task that has ended by the event at an offset, and keeps which ones ask for another trial."""
    if task.requested:
        (batch.asking.add if task.asks else batch.asking.discard)(task.task_id)
    if task.end is not None and task.task_id in batch.open:
        batch.changed_at = offset
        batch.open.discard(task.task_id)
        batch.ends[task.end.value] = batch.ends.get(task.end.value, 0) + 1
        batch.settled.append(task.task_id)
        if task.end is not AttemptEnd.FINISHED:
            batch.unfinished[task.task_id] = task.end


def evolve(batch: Batch, record: Record) -> Outcome:
    """Folds one event into the batch; changes it only if it returns APPLIED."""
    outcome = _evolve(batch, record)
    if outcome is Outcome.APPLIED:
        batch.changed_at = record.offset
    return outcome


def _evolve(batch: Batch, record: Record) -> Outcome:
    event = record.message
    match event:
        case BatchStarted():
            return Outcome.DUPLICATE
        case GroupEnded():
            return _group_ended(batch, event)
        case BatchStopRequested():
            return _stop_requested(batch, event, record)
        case BatchEnded():
            return _batch_ended(batch, event, record)
        case _:
            return Outcome.OVERTAKEN


def _group_ended(batch: Batch, event: GroupEnded) -> Outcome:
    if event.group < batch.group:
        return Outcome.DUPLICATE
    if event.group != batch.group or not batch.group_is_over:
        return Outcome.OVERTAKEN
    batch.ended.append(batch.ends)
    batch.ends = {}
    batch.group += 1
    batch.submitted = batch.begun = 0
    return Outcome.APPLIED


def _stop_requested(batch: Batch, event: BatchStopRequested, record: Record) -> Outcome:
    if batch.status is BatchStatus.STOPPING:
        return Outcome.DUPLICATE
    batch.status = BatchStatus.STOPPING
    batch.stop_reason = event.reason or "user"
    batch.stopped_at = record.offset
    return Outcome.APPLIED


def _batch_ended(batch: Batch, event: BatchEnded, record: Record) -> Outcome:
    done = batch.group == len(batch.spec.groups)
    stopped = batch.status is BatchStatus.STOPPING and not batch.open and not batch.open_children
    if event.status is not (BatchStatus.STOPPED if stopped and not done else BatchStatus.DONE) or not (
        done or stopped
    ):
        return Outcome.OVERTAKEN
    batch.status = event.status
    batch.ended_ms = record.append_time_ms
    return Outcome.APPLIED
