"""INV-12 of batches, and INV-10 of searches and batches: limits, order and legal transitions."""

from dataclasses import dataclass, field

from trackside.aggregates.batch.messages import (
    BatchEnded,
    BatchSpec,
    BatchStarted,
    BatchStopRequested,
    GroupEnded,
    task_name,
)
from trackside.aggregates.search.messages import SearchEnded, SearchStarted
from trackside.contracts.ids import batch_task_id, trial_task_id
from trackside.contracts.message import Message, Record
from trackside.contracts.tasks import TaskSubmitted
from trackside.verify.checks.searches import OngoingSearchEvent, SearchChecks, SearchHistory, search_history
from trackside.verify.checks.task_history import TaskHistory
from trackside.verify.findings import Findings

BATCH_EVENTS = (GroupEnded, BatchStopRequested, BatchEnded)
STARTS = (SearchStarted, BatchStarted)
ENDS = (SearchEnded, BatchEnded)


@dataclass(slots=True)
class BatchHistory:
    """The state of a batch: its running group, the tasks of it that were submitted, those not ended."""

    batch_id: str
    spec: BatchSpec
    group: int = 0
    submitted: int = 0
    open: set[str] = field(default_factory=set)
    stopping: bool = False

    @property
    def group_size(self) -> int:
        """The number of tasks of the running group; 0 after the last one."""
        return len(self.spec.groups[self.group].tasks) if self.group < len(self.spec.groups) else 0


RootHistory = SearchHistory | BatchHistory | None


@dataclass(slots=True)
class RootChecks:
    """Checks events of searches and batches, and the tasks that they submit."""

    findings: Findings
    searches: SearchChecks = field(init=False)

    def __post_init__(self) -> None:
        self.searches = SearchChecks(self.findings)

    def started(self, root: RootHistory, stream_id: str, event: Message, record: Record) -> RootHistory:
        """Checks the start of a search or batch, and returns its history."""
        if root is not None or not isinstance(event, STARTS):
            self.findings.add("INV-10", record, f"{type(event).__name__} in a stream that has its root")
            return root
        if isinstance(event, SearchStarted):
            return search_history(stream_id, event, record)
        return BatchHistory(stream_id, event.batch)

    def take(self, root: RootHistory, tasks: dict[str, TaskHistory], event: Message, record: Record) -> None:
        """Checks an event of a search or batch."""
        if isinstance(root, SearchHistory) and isinstance(event, OngoingSearchEvent):
            self.searches.take(root, tasks, event, record)
        elif isinstance(root, BatchHistory) and isinstance(event, BATCH_EVENTS):
            self._batch_event(root, event, record)
        else:
            self.findings.illegal(record, "has no such root")

    def submitted(self, root: RootHistory, event: TaskSubmitted, record: Record) -> None:
        """Checks that a submitted task is the next one."""
        if isinstance(root, BatchHistory):
            self._batch_task_submitted(root, event, record)
        elif isinstance(root, SearchHistory):
            trial = root.suggested - 1
            belongs = event.trial == trial and event.task_id == trial_task_id(root.search_id, trial)
            if trial in root.reused_tasks or not belongs:
                self.findings.illegal(
                    record, f"task {event.task_id} is not that of the newest trial, {trial}"
                )

    def ended(self, root: RootHistory, task_id: str) -> None:
        """Records that a task has ended."""
        if isinstance(root, BatchHistory):
            root.open.discard(task_id)

    def _batch_task_submitted(self, batch: BatchHistory, event: TaskSubmitted, record: Record) -> None:
        self.findings.checked["INV-12"] += 1
        if batch.stopping:
            self.findings.illegal(record, "the batch is being stopped")
        if event.group != batch.group or batch.submitted >= batch.group_size:
            message = (
                f"task {event.task_id} of group {event.group} is submitted while group {batch.group} runs"
            )
            self.findings.add("INV-12", record, message)
        else:
            name = task_name(batch.spec.groups[batch.group].tasks[batch.submitted], batch.submitted)
            if event.task_id != batch_task_id(batch.batch_id, batch.group, name):
                message = f"task {event.task_id} is submitted, the next one of its group is {name}"
                self.findings.add("INV-12", record, message)
        batch.submitted += 1
        batch.open.add(event.task_id)
        self.findings.check_concurrency(len(batch.open), batch.spec.concurrency, "tasks", record)

    def _batch_event(self, batch: BatchHistory, event: Message, record: Record) -> None:
        match event:
            case GroupEnded():
                self._group_ended(batch, event, record)
            case BatchStopRequested():
                if batch.stopping:
                    self.findings.illegal(record, "the batch is stopping already")
                batch.stopping = True
            case BatchEnded():
                if batch.group < len(batch.spec.groups) and (batch.open or not batch.stopping):
                    groups, running = len(batch.spec.groups), len(batch.open)
                    message = f"group {batch.group} of {groups} runs, {running} tasks go on"
                    self.findings.illegal(record, message)

    def _group_ended(self, batch: BatchHistory, event: GroupEnded, record: Record) -> None:
        if event.group != batch.group:
            message = f"group {event.group} ends while group {batch.group} runs"
            self.findings.add("INV-12", record, message)
        elif batch.open or batch.submitted < batch.group_size:
            message = (
                f"group {event.group} ends with {len(batch.open)} tasks that go on and "
                f"{batch.group_size - batch.submitted} that were not submitted"
            )
            self.findings.add("INV-12", record, message)
        batch.group, batch.submitted = event.group + 1, 0
        batch.open.clear()
