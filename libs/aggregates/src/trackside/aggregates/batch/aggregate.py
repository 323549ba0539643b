"""The batch as an aggregate type: its events and commands, who folds and who decides them."""

from collections.abc import Iterable, Mapping

from trackside.aggregates.batch import decide, evolve
from trackside.aggregates.batch.causes import BatchCausality
from trackside.aggregates.batch.invariants import BatchInvariants
from trackside.aggregates.batch.messages import (
    BatchEnded,
    BatchStarted,
    BatchStopRequested,
    GroupEnded,
    StopTasks,
    SubmitTasks,
)
from trackside.aggregates.batch.rows import BatchRows, GroupRows
from trackside.aggregates.batch.spec import SPECS, stop_command
from trackside.aggregates.batch.state import Batch
from trackside.aggregates.batch.view import VIEW
from trackside.contracts.envelope.message import Command, Json, Record
from trackside.contracts.streams.children import ChildRequested, WantedChild
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.domain.folding.aggregate import AggregateType, Handler
from trackside.domain.folding.lookup import Lookup
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import Proposal
from trackside.domain.streams.child import Child
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Task


class BatchType(AggregateType[Batch]):
    """Batches."""

    kind = "batch"
    state = Batch
    begins_with = BatchStarted
    ends_with = BatchEnded
    events = (BatchStarted, GroupEnded, BatchStopRequested, BatchEnded)
    commands: Mapping[type[Command], Handler] = {SubmitTasks: decide.start, StopTasks: decide.stop}
    opened_by = frozenset[type[Command]]((SubmitTasks,))
    mailed = (GroupEnded,)
    may_be_too_late = (BatchStopRequested,)
    causes = BatchCausality()
    specs = SPECS
    invariants = BatchInvariants
    child_begins_by = SubmitTasks
    rows = (BatchRows(), GroupRows())
    view = VIEW

    def begin(self, stream_id: str, event: BatchStarted, record: Record) -> Batch:
        """Makes the batch of a BatchStarted event."""
        return evolve.begin(stream_id, event, record)

    def evolve(self, root: Batch, tasks: dict[str, Task], record: Record) -> Outcome:
        """Folds an event of the batch."""
        return evolve.evolve(root, record)

    def admits(self, root: Batch, event: TaskSubmitted) -> bool:
        """Returns whether a task is the next one of the group that runs now."""
        return evolve.admits(root, event)

    def task_submitted(self, root: Batch, task: Task, record: Record) -> None:
        """Counts a task that was submitted."""
        evolve.note_submitted(root, task.task_id)

    def task_changed(self, root: Batch, task: Task, record: Record, reports: int) -> None:
        """Counts a task that has ended, and keeps which ones ask for another trial."""
        evolve.note_changed(root, task, record.offset)

    def stop_command(self, task: str, reason: str) -> Command:
        """Returns what stops the batch, or one task of it."""
        return stop_command(task, reason)

    def children_of(self, command: Command, stream_id: str) -> Iterable[WantedChild]:
        """Yields the children that a batch asks for."""
        return decide.children_of(command, stream_id) if isinstance(command, SubmitTasks) else ()

    def admits_child(self, root: Batch, event: ChildRequested) -> bool:
        """Returns whether a child is the next one of the group that runs now."""
        return evolve.admits_child(root, event)

    def child_changed(self, root: Batch, child: Child, record: Record) -> None:
        """Counts a child that was requested, or has ended."""
        evolve.note_child(root, child, record.offset)

    def outcome(self, root: Batch) -> tuple[str, Json]:
        """Returns its status and what it has found."""
        return root.status.value, root.outcome

    def ends(self, root: Batch) -> Mapping[str, int]:
        """Counts its tasks and children by how they ended."""
        counted: dict[str, int] = root.outcome["ends"]
        return counted

    def lacking(self, stream: Stream[Batch], lookup: Lookup) -> Iterable[Proposal]:
        """Yields what the batch lacks now."""
        return decide.lacking(stream)


BATCH = BatchType()
