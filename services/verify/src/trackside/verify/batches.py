"""INV-12, and INV-10 of roots: batches stay within their limits and in their order; searches too."""

from dataclasses import dataclass, field

from trackside.contracts.batches import (
    BatchEnded,
    BatchSpec,
    BatchStarted,
    BatchStopRequested,
    GroupEnded,
    task_name,
)
from trackside.contracts.ids import batch_task_id, trial_task_id
from trackside.contracts.message import Message, Record
from trackside.contracts.searches import SearchEnded, SearchStarted
from trackside.contracts.tasks import TaskSubmitted
from trackside.verify.findings import Findings
from trackside.verify.searches import OF_SEARCHES, SearchBook, Searches, book_of
from trackside.verify.task_history import TaskBook

OF_BATCHES = (GroupEnded, BatchStopRequested, BatchEnded)
STARTS = (SearchStarted, BatchStarted)
ENDS = (SearchEnded, BatchEnded)


@dataclass(slots=True)
class BatchBook:
    """What was seen of a batch: the group that runs, how many tasks of it were submitted, which go on."""

    batch_id: str
    spec: BatchSpec
    group: int = 0
    submitted: int = 0
    open: set[str] = field(default_factory=set)
    stopping: bool = False

    @property
    def tasks_of_group(self) -> int:
        """How many tasks the group has that runs now; 0 behind the last one."""
        return len(self.spec.groups[self.group].tasks) if self.group < len(self.spec.groups) else 0


Root = SearchBook | BatchBook | None


@dataclass(slots=True)
class Roots:
    """Judges events of searches and batches, and what they submit."""

    findings: Findings
    searches: Searches = field(init=False)

    def __post_init__(self) -> None:
        self.searches = Searches(self.findings)

    def started(self, root: Root, stream_id: str, event: Message, record: Record) -> Root:
        """Judges the start of a root, and gives its book."""
        if root is not None or not isinstance(event, STARTS):
            self.findings.add("INV-10", record, f"{type(event).__name__} in a stream that has its root")
            return root
        if isinstance(event, SearchStarted):
            return book_of(stream_id, event, record)
        return BatchBook(stream_id, event.batch)

    def take(self, root: Root, tasks: dict[str, TaskBook], event: Message, record: Record) -> None:
        """Judges what happens to a root."""
        if isinstance(root, SearchBook) and isinstance(event, OF_SEARCHES):
            self.searches.take(root, tasks, event, record)
        elif isinstance(root, BatchBook) and isinstance(event, OF_BATCHES):
            self._of_batch(root, event, record)
        else:
            self.findings.illegal(record, "has no such root")

    def submitted(self, root: Root, event: TaskSubmitted, record: Record) -> None:
        """Judges whether it is the turn of a task."""
        if isinstance(root, BatchBook):
            self._submitted_of_batch(root, event, record)
        elif isinstance(root, SearchBook):
            trial = root.suggested - 1
            of_it = event.trial == trial and event.task_id == trial_task_id(root.search_id, trial)
            if trial in root.within or not of_it:
                self.findings.illegal(
                    record, f"task {event.task_id} is not that of the newest trial, {trial}"
                )

    def ended(self, root: Root, task_id: str) -> None:
        """Notes that a task has ended."""
        if isinstance(root, BatchBook):
            root.open.discard(task_id)

    def _submitted_of_batch(self, book: BatchBook, event: TaskSubmitted, record: Record) -> None:
        self.findings.checked["INV-12"] += 1
        if book.stopping:
            self.findings.illegal(record, "the batch is being stopped")
        if event.group != book.group or book.submitted >= book.tasks_of_group:
            message = (
                f"task {event.task_id} of group {event.group} is submitted while group {book.group} runs"
            )
            self.findings.add("INV-12", record, message)
        else:
            name = task_name(book.spec.groups[book.group].tasks[book.submitted], book.submitted)
            if event.task_id != batch_task_id(book.batch_id, book.group, name):
                message = f"task {event.task_id} is submitted, the next one of its group is {name}"
                self.findings.add("INV-12", record, message)
        book.submitted += 1
        book.open.add(event.task_id)
        self.findings.at_once(len(book.open), book.spec.concurrency, "tasks", record)

    def _of_batch(self, book: BatchBook, event: Message, record: Record) -> None:
        match event:
            case GroupEnded():
                self._group_ended(book, event, record)
            case BatchStopRequested():
                if book.stopping:
                    self.findings.illegal(record, "the batch is stopping already")
                book.stopping = True
            case BatchEnded():
                if book.group < len(book.spec.groups) and (book.open or not book.stopping):
                    message = (
                        f"group {book.group} of {len(book.spec.groups)} runs, {len(book.open)} tasks go on"
                    )
                    self.findings.illegal(record, message)

    def _group_ended(self, book: BatchBook, event: GroupEnded, record: Record) -> None:
        if event.group != book.group:
            message = f"group {event.group} ends while group {book.group} runs"
            self.findings.add("INV-12", record, message)
        elif book.open or book.submitted < book.tasks_of_group:
            message = (
                f"group {event.group} ends with {len(book.open)} tasks that go on and "
                f"{book.tasks_of_group - book.submitted} that were not submitted"
            )
            self.findings.add("INV-12", record, message)
        book.group, book.submitted = event.group + 1, 0
        book.open.clear()
