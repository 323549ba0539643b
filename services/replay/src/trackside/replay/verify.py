"""Verifies a recorded log by the events topic alone: what must hold of every history.

INV-1: every publication of a command has one answer. INV-2: a task ends once, at the latest when its
stream is over. INV-3: the attempts of a task are 1..n without a gap; each is accepted once a placement and
ended once at most; a preempted one goes on. INV-4: a slot of a CPU has one attempt at a time, from its
acceptance, or its training where it waited behind another one, to its end; a GPU has all that fit. INV-12: a
search has no more trials than its limit, and no more at once than its concurrency.

Judged are the events that count, as the fold of every reader says. The books below are kept apart from the
folded state, so that a fold that lets too much count is caught as well.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from trackside.contracts.commands import CommandAccepted, CommandReceived, CommandRefused, Source
from trackside.contracts.message import Record
from trackside.contracts.searches import SearchStarted, TrialEnded, TrialSuggested
from trackside.contracts.tasks import (
    AttemptEnd,
    AttemptEnded,
    TaskAccepted,
    TaskAssigned,
    TaskStatus,
    TaskStatusChanged,
)
from trackside.contracts.topics import Topics
from trackside.domain.outcome import Outcome
from trackside.domain.stream import Stream
from trackside.domain.streams import Streams
from trackside.domain.task import TaskState
from trackside.domain.task_events import TaskEvent
from trackside.eventlog.clock import now_ms
from trackside.eventlog.decode import decode
from trackside.eventlog.log import Log, TopicPartition

GRACE_MS = 10_000
"""How old a command must be for a missing answer to be a finding; at the end of a live log some are new."""
GPU = "gpu-"
"""What the ids of devices begin with that several tasks may share."""
Fold = Callable[[Record], tuple[Stream, Outcome]]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that must not be in a log, and the record where it shows."""

    invariant: str
    topic: str
    partition: int
    offset: int
    stream: str
    message: str

    def __str__(self) -> str:
        """Gives the line that people see."""
        return f"{self.invariant} {self.topic}-{self.partition}@{self.offset} {self.stream}: {self.message}"


@dataclass(slots=True)
class _Attempt:
    accepted: set[int] = field(default_factory=set)
    ended: bool = False


@dataclass(slots=True)
class _Books:
    """What was seen of one stream."""

    unanswered: dict[Source, Record] = field(default_factory=dict)
    answered: set[Source] = field(default_factory=set)
    attempts: dict[str, dict[int, _Attempt]] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    limit: int = 0
    concurrency: int = 0
    suggested: int = 0
    running: int = 0
    over: bool = False


@dataclass(slots=True)
class _Use:
    """An attempt on a device, in ms of the log's clock; `end_ms` is None while it goes on."""

    start_ms: int
    record: Record
    task: str
    end_ms: int | None = None


@dataclass(slots=True)
class Verifier:
    """Takes the records of the events topic, in order within a partition, and collects findings."""

    fold: Fold
    findings: list[Finding] = field(default_factory=list)
    _books: dict[str, _Books] = field(default_factory=dict)
    _uses: dict[tuple[str, str], list[_Use]] = field(default_factory=dict)
    _open: dict[tuple[str, str, int], _Use] = field(default_factory=dict)

    def take(self, record: Record) -> None:
        """Judges one record; one that the fold ignores says nothing."""
        stream, outcome = self.fold(record)
        if outcome is not Outcome.APPLIED:
            return
        books = self._books.setdefault(stream.stream_id, _Books())
        event = record.message
        if isinstance(event, CommandReceived | CommandAccepted | CommandRefused):
            self._command(books, event, record)
        elif isinstance(event, SearchStarted | TrialSuggested | TrialEnded):
            self._search(books, event, record)
        elif isinstance(event, TaskEvent):
            self._task(books, stream, event.task_id, record)
        if stream.closed and not books.over:
            self._over(books, record)

    def finish(self, now_ms: int) -> list[Finding]:
        """Adds what only the whole log shows and gives all findings; `now_ms` is the clock of the log."""
        for books in self._books.values():
            for record in books.unanswered.values():
                if now_ms - record.append_time_ms >= GRACE_MS:
                    self._find("INV-1", record, "this publication of a command has no answer")
        for device, uses in sorted(self._uses.items()):
            self._overlaps(device, uses)
        return sorted(self.findings, key=lambda f: (f.partition, f.offset, f.invariant))

    def _command(
        self, books: _Books, event: CommandReceived | CommandAccepted | CommandRefused, record: Record
    ) -> None:
        if isinstance(event, CommandReceived):
            books.unanswered[event.source] = record
            return
        if event.source in books.answered:
            self._find("INV-1", record, f"command {event.command_id} is answered twice")
        elif event.source not in books.unanswered:
            self._find("INV-1", record, f"command {event.command_id} is answered but was not received")
        books.unanswered.pop(event.source, None)
        books.answered.add(event.source)

    def _search(
        self, books: _Books, event: SearchStarted | TrialSuggested | TrialEnded, record: Record
    ) -> None:
        if isinstance(event, SearchStarted):
            books.limit, books.concurrency = event.search.max_trials, event.search.concurrency
            return
        if isinstance(event, TrialEnded):
            books.running -= 1
            return
        books.suggested += 1
        books.running += 1
        if books.suggested > books.limit:
            self._find("INV-12", record, f"{books.suggested} trials, the limit is {books.limit}")
        if books.running > books.concurrency:
            message = f"{books.running} trials at once, the concurrency is {books.concurrency}"
            self._find("INV-12", record, message)

    def _task(self, books: _Books, stream: Stream, task: str, record: Record) -> None:
        event = record.message
        attempts = books.attempts.setdefault(task, {})
        if task in books.ended:
            self._find("INV-2", record, f"task {task} had ended before this {type(event).__name__}")
        if isinstance(event, TaskAssigned | TaskAccepted | AttemptEnded):
            self._attempt(attempts, stream, event, record)
        elif isinstance(event, TaskStatusChanged) and event.status is TaskStatus.TRAINING:
            self._begin_use(stream, event, record)
        if stream.tasks[task].state is TaskState.ENDED:
            books.ended.add(task)

    def _attempt(
        self,
        attempts: dict[int, _Attempt],
        stream: Stream,
        event: TaskAssigned | TaskAccepted | AttemptEnded,
        record: Record,
    ) -> None:
        name = f"attempt {event.attempt} of task {event.task_id}"
        if event.attempt not in (len(attempts), len(attempts) + 1):
            self._find("INV-3", record, f"{name} comes after attempt {len(attempts)}")
        seen = attempts.setdefault(event.attempt, _Attempt())
        before = attempts.get(event.attempt - 1)
        if before is not None and not before.ended:
            self._find("INV-3", record, f"{name} begins before the one before it has ended")
        place = (stream.stream_id, event.task_id, event.attempt)
        if isinstance(event, TaskAccepted):
            if event.placement in seen.accepted:
                self._find("INV-3", record, f"{name} is accepted twice")
            seen.accepted.add(event.placement)
            if not stream.tasks[event.task_id].attempts[event.attempt - 1].behind:
                self._begin_use(stream, event, record)
        elif isinstance(event, AttemptEnded):
            if seen.ended:
                self._find("INV-3", record, f"{name} ends twice")
            seen.ended = event.end is not AttemptEnd.PREEMPTED
            use = self._open.pop(place, None)
            if use is not None:
                use.end_ms = record.append_time_ms

    def _begin_use(self, stream: Stream, event: TaskAccepted | TaskStatusChanged, record: Record) -> None:
        """Notes that an attempt has its devices to itself from now on, if it hadn't."""
        place = (stream.stream_id, event.task_id, event.attempt)
        if place in self._open:
            return
        attempt = stream.tasks[event.task_id].attempts[event.attempt - 1]
        use = _Use(record.append_time_ms, record, event.task_id)
        self._open[place] = use
        for device_id in attempt.device_ids:
            if not device_id.startswith(GPU):
                self._uses.setdefault((attempt.worker_id, device_id), []).append(use)

    def _over(self, books: _Books, record: Record) -> None:
        books.over = True
        for task in books.attempts.keys() - books.ended:
            self._find("INV-2", record, f"the stream is over, its task {task} has not ended")
        books.attempts = {task: {} for task in books.attempts}

    def _overlaps(self, device: tuple[str, str], uses: list[_Use]) -> None:
        """Finds attempts that began before the one before them had ended.

        Two attempts may be of different partitions, so they are compared by the log's clock alone.
        """
        uses.sort(key=lambda use: use.start_ms)
        last: _Use | None = None
        for use in uses:
            if last is not None and (last.end_ms is None or use.start_ms < last.end_ms):
                message = f"device {device[0]}/{device[1]} has task {use.task} while it has {last.task}"
                self._find("INV-4", use.record, message)
            if last is None or (last.end_ms is not None and _end(use) > last.end_ms):
                last = use

    def _find(self, invariant: str, record: Record, message: str) -> None:
        place = (record.topic, record.partition, record.offset)
        self.findings.append(Finding(invariant, *place, record.envelope.stream, message))


def _end(use: _Use) -> float:
    return float("inf") if use.end_ms is None else use.end_ms


async def verify(log: Log, topics: Topics, fold: Fold | None = None) -> list[Finding]:
    """Verifies the events topic from its start to where it ends now; an empty list is a clean log.

    Raises TransientError, and what reading a log of another release raises.
    """
    verifier = Verifier(fold or Streams().fold)
    name = topics.events.name
    ends = {(name, partition): end for partition, end in (await log.ends(name)).items() if end}
    reader = log.reader(dict.fromkeys(ends, 0))
    try:
        while ends:
            for entry in await reader.read(1.0):
                place: TopicPartition = (entry.topic, entry.partition)
                if place in ends and (record := decode(entry)) is not None:
                    verifier.take(record)
                if entry.offset + 1 >= ends.get(place, entry.offset + 2):
                    del ends[place]
    finally:
        await reader.close()
    return verifier.finish(now_ms())
