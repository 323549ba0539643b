"""The dataset as an aggregate type: its events and commands, who folds and who decides them."""

from collections.abc import Iterable, Mapping

from trackside.aggregates.dataset import decide, evolve, messages
from trackside.aggregates.dataset.messages import DatasetRegistered
from trackside.aggregates.dataset.state import Dataset
from trackside.contracts.message import Command, Record
from trackside.contracts.tasks import TaskSubmitted
from trackside.domain.aggregate import AggregateType, Handler
from trackside.domain.lookup import Lookup
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import Proposal
from trackside.domain.stream import Stream
from trackside.domain.task import Task


class DatasetType(AggregateType[Dataset]):
    """Datasets: files that grow at their end, which a service watches."""

    kind = "dataset"
    state = Dataset
    begins_with = DatasetRegistered
    events = (
        DatasetRegistered,
        messages.DatasetObserved,
        messages.DatasetTruncated,
        messages.DatasetChanged,
        messages.DatasetRefused,
        messages.DatasetPaused,
        messages.DatasetResumed,
        messages.DatasetDeleted,
    )
    commands: Mapping[type[Command], Handler] = {
        messages.RegisterDataset: decide.register,
        messages.PauseDataset: decide.pause,
        messages.ResumeDataset: decide.resume,
        messages.DeleteDataset: decide.delete,
    }

    def begin(self, stream_id: str, event: DatasetRegistered, record: Record) -> Dataset:
        """Makes the dataset of a DatasetRegistered event."""
        return evolve.begin(stream_id, event, record)

    def evolve(self, root: Dataset, tasks: dict[str, Task], record: Record) -> Outcome:
        """Folds an event of the dataset."""
        return evolve.evolve(root, record)

    def admits(self, root: Dataset, event: TaskSubmitted) -> bool:
        """Says whether a task is its next watcher."""
        return evolve.admits(root, event)

    def task_submitted(self, root: Dataset, task: Task, record: Record) -> None:
        """Takes in that another service watches it."""
        evolve.watcher_submitted(root, record)

    def task_changed(self, root: Dataset, task: Task, record: Record, reports: int) -> None:
        """Takes in what became of its watcher."""
        evolve.watcher_changed(root, task, record)

    def lacking(self, stream: Stream[Dataset], lookup: Lookup) -> Iterable[Proposal]:
        """Yields what the dataset lacks now."""
        return decide.lacking(stream)


DATASET = DatasetType()
