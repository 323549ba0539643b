"""What led to what in a stream: each event with the one whose effect its guard rests on.

Where an event names its cause (`ce_causationid`) that counts. Else it is what the fold asked for: a
suggestion rests on what opened its slot, an assignment on what put the task into the queue, and so on.
"""

from dataclasses import dataclass, field
from typing import Any

from trackside.aggregates.batch.state import batch_of
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.state import search_of
from trackside.contracts.advice import SuggestionDeferred, SuggestionFailed
from trackside.contracts.batches import BatchEnded, BatchStarted, BatchStopRequested, GroupEnded
from trackside.contracts.commands import CommandAccepted, CommandReceived, CommandRefused, Source
from trackside.contracts.ids import trial_task_id
from trackside.contracts.message import Event, Record
from trackside.contracts.searches import (
    SearchEnded,
    SearchExhausted,
    SearchFailed,
    SearchStarted,
    SearchStopRequested,
    TrialEnded,
    TrialSuggested,
)
from trackside.contracts.tasks import (
    AttemptEnd,
    AttemptEnded,
    MetricReported,
    TaskAssigned,
    TaskPreemptionRequested,
    TaskStopRequested,
    TaskSubmitted,
    TaskUnschedulable,
    TimeLimitReached,
)
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import parse_cause
from trackside.domain.stream import Stream, fold
from trackside.domain.task import TaskState
from trackside.domain.task_events import TaskEvent
from trackside.replay.causality.event_text import brief

_ASKED_FOR = frozenset({AttemptEnd.CANCELLED, AttemptEnd.PREEMPTED, AttemptEnd.TIMED_OUT_RUN})


@dataclass(frozen=True, slots=True)
class Step:
    """One event: who wrote it, what it is about, and the offset of the event that it follows (-1: none).

    `outside` is a cause that is no event of the stream: a message id, or a publication of a command.
    """

    offset: int
    time_ms: int
    what: str
    said: str
    role: str
    instance: str
    outcome: Outcome
    follows: int = -1
    outside: str = ""
    task: str = ""
    attempt: int = 0
    command: str = ""

    def as_json(self) -> dict[str, Any]:
        """Gives it for programs."""
        return {
            "offset": self.offset,
            "time_ms": self.time_ms,
            "type": self.what,
            "said": self.said,
            "role": self.role,
            "instance": self.instance,
            "outcome": self.outcome.value,
            "follows": None if self.follows < 0 else self.follows,
            "outside": self.outside or None,
            "task_id": self.task or None,
            "attempt": self.attempt or None,
            "command_id": self.command or None,
        }


@dataclass(slots=True)
class _OfTask:
    """Offsets of what happened to a task: last of all, what queued it, what asked it to end, last report."""

    last: int
    queued: int
    asked: int = -1
    reported: int = -1


@dataclass(slots=True)
class Causes:
    """Folds the records of one stream, in order, and notes what each of them follows."""

    stream: Stream
    steps: list[Step] = field(default_factory=list)
    _ids: dict[str, int] = field(default_factory=dict)
    _received: dict[Source, int] = field(default_factory=dict)
    _accepted: dict[str, int] = field(default_factory=dict)
    _tasks: dict[str, _OfTask] = field(default_factory=dict)
    _ends_in_group: list[int] = field(default_factory=list)
    _suggested: int = -1
    _root: int = -1
    _ending: int = -1
    """What last brought the root nearer to its end: an ended trial or task or group, a wish to stop."""
    _stop: int = -1

    def take(self, record: Record) -> Step:
        """Folds a record and gives its step."""
        envelope, event = record.envelope, record.message
        assert isinstance(event, Event)
        task, attempt = self._about(event)
        follows, outside = self._cause(record)
        outcome = fold(self.stream, record, AGGREGATES)
        if outcome is Outcome.APPLIED:
            self._note(event, task, record.offset)
        else:
            follows, outside = -1, ""
        self._ids[envelope.id] = record.offset
        step = Step(
            offset=record.offset,
            time_ms=record.append_time_ms,
            what=type(event).__name__,
            said=brief(event),
            role=envelope.role,
            instance=envelope.source.rpartition("/")[2],
            outcome=outcome,
            follows=follows,
            outside=outside,
            task=task,
            attempt=attempt,
            command=getattr(event, "command_id", ""),
        )
        self.steps.append(step)
        return step

    def _about(self, event: Event) -> tuple[str, int]:
        """Gives the task that an event is about, and its attempt; a trial is its task."""
        if isinstance(event, TrialSuggested | TrialEnded):
            return trial_task_id(self.stream.stream_id, event.trial), 0
        if not isinstance(event, TaskEvent):
            return "", 0
        known = self.stream.tasks.get(event.task_id)
        current = 0 if known is None else known.attempt.number
        return event.task_id, getattr(event, "attempt", current)

    def _cause(self, record: Record) -> tuple[int, str]:
        named = record.envelope.causation_id
        if named in self._ids:
            return self._ids[named], ""
        if place := parse_cause(named):
            in_stream = place[0] in (self.stream.stream_id, record.envelope.stream)
            return (place[1], "") if in_stream and place[1] < record.offset else (-1, f"event {named}")
        if named:
            return -1, f"message {named}"
        event = record.message
        if isinstance(event, CommandReceived):
            source = event.source
            return -1, f"{event.publisher or 'someone'} at {source.topic}-{source.partition}@{source.offset}"
        if isinstance(event, TaskEvent):
            return self._of_task(event), ""
        return self._of_root(record.message), ""

    def _of_root(self, event: Any) -> int:
        match event:
            case CommandAccepted() | CommandRefused():
                return self._received.get(event.source, -1)
            case SearchStarted() | BatchStarted() | SearchStopRequested() | BatchStopRequested():
                return self._accepted.get(event.command_id, -1)
            case TrialSuggested(trial=number):
                return self._slot(number)
            case SearchExhausted(trials=number):
                return self._slot(number)
            case SuggestionFailed(trial=number) | SuggestionDeferred(trial=number):
                return self._slot(number)
            case SearchFailed():
                search = search_of(self.stream)
                return -1 if search is None else self._slot(len(search.trials))
            case TrialEnded(trial=number):
                search = search_of(self.stream)
                of_task = None if search is None else self._tasks.get(search.task_of(number))
                return -1 if of_task is None else of_task.last
            case SearchEnded() | GroupEnded() | BatchEnded():
                return self._ending
            case _:
                return -1

    def _slot(self, number: int) -> int:
        """Gives what opened the slot of a trial; the last one if there is none for it."""
        search = search_of(self.stream)
        opened = [] if search is None else search.opened
        if 0 <= number < len(opened):
            return opened[number]
        return opened[-1] if opened else self._root

    def _of_task(self, event: TaskEvent) -> int:
        if isinstance(event, TaskSubmitted):
            return self._room_for_task()
        of_task = self._tasks.get(event.task_id)
        if of_task is None:
            return -1
        match event:
            case TaskStopRequested(reason="assessor"):
                return of_task.reported if of_task.reported >= 0 else of_task.last
            case TaskStopRequested():
                return self._stop if self._stop >= 0 else self._ending
            case TaskAssigned() | TaskUnschedulable():
                return of_task.queued
            case AttemptEnded(end=end) if end in _ASKED_FOR and of_task.asked >= 0:
                return of_task.asked
            case _:
                return of_task.last

    def _room_for_task(self) -> int:
        """Gives what made room for a task: its suggestion; in a batch its group's turn, or an end in it."""
        batch = batch_of(self.stream)
        if batch is None:
            return self._suggested
        freed = batch.submitted - batch.spec.concurrency
        if 0 <= freed < len(self._ends_in_group):
            return self._ends_in_group[freed]
        return self._root

    def _note(self, event: Event, task: str, offset: int) -> None:
        """Remembers what later events may rest on."""
        match event:
            case CommandReceived():
                self._received[event.source] = offset
            case CommandAccepted():
                self._accepted[event.command_id] = offset
                self._stop = offset if batch_of(self.stream) is not None else self._stop
            case SearchStarted() | BatchStarted():
                self._root = self._ending = offset
            case GroupEnded():
                self._root = self._ending = offset
                self._ends_in_group.clear()
            case SearchStopRequested() | BatchStopRequested() | SearchFailed():
                self._stop = self._ending = offset
            case TrialSuggested():
                self._suggested = offset
            case TrialEnded() | SearchExhausted():
                self._ending = offset
            case TaskSubmitted():
                self._tasks[task] = _OfTask(offset, offset)
            case _ if task in self._tasks:
                self._note_task(event, task, offset)

    def _note_task(self, event: Event, task: str, offset: int) -> None:
        of_task, state = self._tasks[task], self.stream.tasks[task]
        match event:
            case TaskUnschedulable():
                return
            case MetricReported():
                of_task.reported = offset
            case TaskStopRequested() | TaskPreemptionRequested() | TimeLimitReached():
                of_task.asked = offset
            case TaskAssigned():
                of_task.asked = of_task.reported = -1
            case _ if state.state is TaskState.QUEUED:
                of_task.queued = offset
        of_task.last = offset
        if state.state is TaskState.ENDED and batch_of(self.stream) is not None:
            self._ends_in_group.append(offset)
            self._ending = offset
