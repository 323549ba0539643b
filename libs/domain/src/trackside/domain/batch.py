"""A batch: its groups, one after another, and when it is over. Drawn in ARCHITECTURE.md."""

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import PlainSerializer

from trackside.contracts.batches import (
    BatchEnded,
    BatchSpec,
    BatchStarted,
    BatchStatus,
    BatchStopRequested,
    GroupEnded,
    task_name,
)
from trackside.contracts.ids import batch_task_id
from trackside.contracts.message import Record
from trackside.contracts.tasks import TaskSubmitted
from trackside.domain.outcome import Outcome
from trackside.domain.task import Task

OVER = frozenset({BatchStatus.DONE, BatchStatus.STOPPED})


@dataclass(slots=True)
class Batch:
    """A batch as the log has it.

    `group` is the number of the group that runs now, `submitted` how many of its tasks were submitted, in
    their order, `open` those of them that have not ended, `ends` counts the others by their end; `ended`
    holds those counts of the groups that are over. `changed_at` is the offset of the last event that changed
    it, such as the end of one of its tasks; `stopped_at` that of the BatchStopRequested that counts.
    """

    batch_id: str
    spec: BatchSpec
    started_ms: int
    status: BatchStatus = BatchStatus.RUNNING
    group: int = 0
    submitted: int = 0
    open: Annotated[set[str], PlainSerializer(sorted, return_type=list[str])] = field(default_factory=set)
    ends: dict[str, int] = field(default_factory=dict)
    ended: list[dict[str, int]] = field(default_factory=list)
    stop_reason: str = ""
    ended_ms: int = 0
    changed_at: int = -1
    stopped_at: int = -1

    @property
    def group_is_over(self) -> bool:
        """Says whether every task of the group that runs now has ended."""
        running = self.group < len(self.spec.groups)
        return running and not self.open and self.submitted == len(self.spec.groups[self.group].tasks)

    @property
    def next_task(self) -> int | None:
        """The number of the task to submit now, if there is one and its turn has come."""
        waits = self.status is BatchStatus.RUNNING and self.group < len(self.spec.groups)
        if not waits or len(self.open) >= self.spec.concurrency:
            return None
        return self.submitted if self.submitted < len(self.spec.groups[self.group].tasks) else None


def started(batch_id: str, event: BatchStarted, record: Record) -> Batch:
    """Makes the batch of a BatchStarted event."""
    return Batch(batch_id, event.batch, record.append_time_ms, changed_at=record.offset)


def may_submit(batch: Batch, event: TaskSubmitted) -> bool:
    """Says whether a task is the next one of the group that runs now."""
    number = batch.next_task
    if number is None or event.group != batch.group:
        return False
    name = task_name(batch.spec.groups[batch.group].tasks[number], number)
    return event.task_id == batch_task_id(batch.batch_id, batch.group, name)


def note_submitted(batch: Batch, task_id: str) -> None:
    """Counts a task that was submitted."""
    batch.submitted += 1
    batch.open.add(task_id)


def note_ended(batch: Batch, task: Task, offset: int) -> None:
    """Counts a task that has ended, by the event at an offset."""
    if task.end is not None and task.task_id in batch.open:
        batch.changed_at = offset
        batch.open.discard(task.task_id)
        batch.ends[task.end.value] = batch.ends.get(task.end.value, 0) + 1


def evolve(batch: Batch, record: Record) -> Outcome:
    """Folds one event into the batch; changes it only if it returns APPLIED."""
    if batch.status in OVER:
        return Outcome.OVERTAKEN
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
    batch.submitted = 0
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
    stopped = batch.status is BatchStatus.STOPPING and not batch.open
    if event.status is not (BatchStatus.STOPPED if stopped and not done else BatchStatus.DONE) or not (
        done or stopped
    ):
        return Outcome.OVERTAKEN
    batch.status = event.status
    batch.ended_ms = record.append_time_ms
    return Outcome.APPLIED
