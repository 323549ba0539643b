"""The verifier of streams: hands each event that counts to the checks that it concerns.

What counts is what the fold of every reader says; but the books of the checks are kept apart from the folded
state, so that a fold that lets too much count is found as well.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from trackside.contracts.commands import CommandAccepted, CommandReceived, CommandRefused
from trackside.contracts.message import Record
from trackside.contracts.tasks import TaskAssigned, TaskSubmitted
from trackside.domain.outcome import Outcome
from trackside.domain.stream import Stream, shrink
from trackside.domain.streams import Streams
from trackside.domain.task_events import KINDS, task_of
from trackside.verify.batches import ENDS, STARTS, Root, Roots
from trackside.verify.commands import CommandBook, CommandEvent, Commands
from trackside.verify.decisions import Decisions
from trackside.verify.device_commands import Sent
from trackside.verify.devices import Uses
from trackside.verify.findings import Finding, Findings
from trackside.verify.fleet import Lives, check_role
from trackside.verify.task_history import At, TaskBook
from trackside.verify.tasks import Tasks

Fold = Callable[[Record], tuple[Stream, Outcome]]
OF_COMMANDS = frozenset({CommandReceived, CommandAccepted, CommandRefused})


@dataclass(slots=True)
class Books:
    """What was seen of one stream; of one that is over only its commands are remembered."""

    commands: CommandBook = field(default_factory=CommandBook)
    root: Root = None
    tasks: dict[str, TaskBook] = field(default_factory=dict)
    over: bool = False


class Verifier:
    """Takes the records of the fleet topic, then those of the events topic, and collects findings.

    Records come in order within a partition, in any order between partitions.
    """

    def __init__(self, fold: Fold | None = None) -> None:
        self.findings = Findings()
        self.lives = Lives(self.findings)
        self.uses = Uses(self.findings)
        self.commands = Commands(self.findings)
        self.sent = Sent(self.findings)
        self.books: dict[str, Books] = {}
        self._fold = fold or Streams().fold
        self._decisions = Decisions(self.findings)
        self._tasks = Tasks(self.findings, self.lives, self.uses)
        self._roots = Roots(self.findings)

    def take(self, record: Record) -> tuple[Stream, Outcome]:
        """Judges one record of the events topic; one that the fold ignores says little."""
        stream, outcome = self._fold(record)
        self._decisions.take(record, outcome)
        if outcome is Outcome.APPLIED:
            self._counts(stream, record)
        return stream, outcome

    def settle(self, before_ms: float) -> None:
        """Judges who had which device, up to a moment before which all partitions were read."""
        self.uses.settle(before_ms)

    def finish(self, now_ms: int) -> list[Finding]:
        """Adds what only the whole log shows and gives all findings; `now_ms` is the clock of the log."""
        self._decisions.finish()
        self.sent.finish()
        self.commands.finish({name: books.commands for name, books in self.books.items()}, now_ms)
        self.settle(float("inf"))
        return self.findings.sorted()

    def _counts(self, stream: Stream, record: Record) -> None:
        event = record.message
        self.findings.checked["INV-7"] += 1
        self.findings.checked["INV-10"] += 1
        check_role(self.findings, record)
        books = self.books.get(stream.stream_id)
        if books is None:
            books = self.books[stream.stream_id] = Books()
            if not isinstance(event, CommandReceived):
                self.findings.add("INV-10", record, "a stream begins with something else than a command")
        if type(event) in OF_COMMANDS:
            self.commands.take(books.commands, cast(CommandEvent, event), record)
        elif type(event) in KINDS:
            self._of_task(books, stream.stream_id, record)
        elif books.over:
            name = type(event).__name__
            self.findings.add("INV-10", record, f"the stream was over before this {name}")
        elif isinstance(event, STARTS):
            books.root = self._roots.started(books.root, stream.stream_id, event, record)
        else:
            self._roots.take(books.root, books.tasks, event, record)
            if isinstance(event, ENDS):
                self._over(books, stream, record)

    def _of_task(self, books: Books, stream: str, record: Record) -> None:
        event, task_id = record.message, task_of(record.message)
        if books.over:
            message = f"task {task_id}: the stream was over before this {type(event).__name__}"
            self.findings.add("INV-2", record, message)
            return
        if type(event) is TaskSubmitted:
            if self._tasks.submitted(books.tasks, event, record):
                self._roots.submitted(books.root, event, record)
            return
        if type(event) is TaskAssigned:
            self.sent.assigned(stream, event)
        book = books.tasks.get(task_id)
        if book is None:
            message = f"{type(event).__name__} of task {task_id}, which was never submitted"
            self.findings.add("INV-10", record, message)
        elif self._tasks.take(book, event, record):  # type: ignore[arg-type]
            self._roots.ended(books.root, task_id)

    def _over(self, books: Books, stream: Stream, record: Record) -> None:
        books.over = True
        for name, book in books.tasks.items():
            if book.at is not At.ENDED:
                self.findings.add("INV-2", record, f"the stream is over, its task {name} has not ended")
                self._tasks.forget(book, record)
        books.tasks, books.root = {}, None
        shrink(stream)
