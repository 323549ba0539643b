"""The batch as an aggregate type: which events are its own, and who folds them."""

from trackside.aggregates.batch import evolve
from trackside.aggregates.batch.state import Batch
from trackside.contracts.batches import BatchEnded, BatchStarted, BatchStopRequested, GroupEnded
from trackside.contracts.message import Record
from trackside.contracts.tasks import TaskSubmitted
from trackside.domain.aggregate import AggregateType
from trackside.domain.outcome import Outcome
from trackside.domain.task import Task


class BatchType(AggregateType[Batch]):
    """Batches."""

    kind = "batch"
    state = Batch
    begins_with = BatchStarted
    events = frozenset({BatchStarted, GroupEnded, BatchStopRequested, BatchEnded})

    def begin(self, stream_id: str, event: BatchStarted, record: Record) -> Batch:
        """Makes the batch of a BatchStarted event."""
        return evolve.begin(stream_id, event, record)

    def evolve(self, root: Batch, tasks: dict[str, Task], record: Record) -> Outcome:
        """Folds an event of the batch."""
        return evolve.evolve(root, record)

    def admits(self, root: Batch, event: TaskSubmitted) -> bool:
        """Says whether a task is the next one of the group that runs now."""
        return evolve.admits(root, event)

    def task_submitted(self, root: Batch, task: Task, record: Record) -> None:
        """Counts a task that was submitted."""
        evolve.note_submitted(root, task.task_id)

    def task_changed(self, root: Batch, task: Task, record: Record, reports: int) -> None:
        """Counts a task that has ended, and keeps which ones ask for another trial."""
        evolve.note_changed(root, task, record.offset)


BATCH = BatchType()
