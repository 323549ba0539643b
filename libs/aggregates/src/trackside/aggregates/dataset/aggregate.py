"""The dataset as an aggregate type: its events and commands, who folds and who decides them."""

from collections.abc import Iterable, Mapping

from trackside.aggregates.dataset import decide, evolve, messages
from trackside.aggregates.dataset.causes import DatasetCausality
from trackside.aggregates.dataset.invariants import DatasetInvariants
from trackside.aggregates.dataset.messages import DatasetRegistered
from trackside.aggregates.dataset.rows import DatasetRows
from trackside.aggregates.dataset.spec import SPECS
from trackside.aggregates.dataset.state import Dataset
from trackside.aggregates.dataset.view import VIEW
from trackside.contracts.envelope.message import Command, Event, Json, Record
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.domain.folding.aggregate import AggregateType, Handler
from trackside.domain.folding.lookup import Lookup
from trackside.domain.folding.signals import Signal
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import Proposal
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Task


class DatasetType(AggregateType[Dataset]):
    """Datasets: files that grow at their end, which a service watches."""

    kind = "dataset"
    state = Dataset
    begins_with = DatasetRegistered
    events: tuple[type[Event], ...] = (
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
    opened_by = frozenset[type[Command]]((messages.RegisterDataset, messages.ResumeDataset))
    causes = DatasetCausality()
    specs = SPECS
    invariants = DatasetInvariants
    rows = (DatasetRows(),)
    view = VIEW

    def begin(self, stream_id: str, event: DatasetRegistered, record: Record) -> Dataset:
        """Makes the dataset of a DatasetRegistered event."""
        return evolve.begin(stream_id, event, record)

    def evolve(self, root: Dataset, tasks: dict[str, Task], record: Record) -> Outcome:
        """Folds an event of the dataset."""
        return evolve.evolve(root, record)

    def admits(self, root: Dataset, event: TaskSubmitted) -> bool:
        """Returns whether a task is its next watcher."""
        return evolve.admits(root, event)

    def task_submitted(self, root: Dataset, task: Task, record: Record) -> None:
        """Takes in that another service watches it."""
        evolve.watcher_submitted(root, record)

    def task_changed(self, root: Dataset, task: Task, record: Record, reports: int) -> None:
        """Takes in what became of its watcher."""
        evolve.watcher_changed(root, task, record)

    def outcome(self, root: Dataset) -> tuple[str, Json]:
        """Returns its status, and how far it was observed."""
        return root.status.value, root.end.model_dump(mode="json")

    def signals(self, root: Dataset) -> Iterable[Signal]:
        """Yields how far it was observed last, once it has samples, and each status that it takes."""
        status = {"dataset": root.dataset_id, "status": root.status.value, "reason": root.reason}
        yield Signal("status", f"{root.changes}/{root.stops}", status)
        if root.end.lines:
            values = {"dataset": root.dataset_id, **root.end.model_dump(mode="json"), "metrics": root.metrics}
            yield Signal("observed", str(root.end.lines), values, offset=root.observed_at)

    def lacking(self, stream: Stream[Dataset], lookup: Lookup) -> Iterable[Proposal]:
        """Yields what the dataset lacks now."""
        return decide.lacking(stream)


DATASET = DatasetType()
