"""The causes of the events of a stream: each event with the one that it follows.

An event names its cause (`ce_causationid`). Events of older releases name none: theirs are inferred.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Event, Record
from trackside.contracts.envelope.standing import Standing
from trackside.contracts.streams.children import ChildRequested
from trackside.contracts.streams.commands import CommandReceived
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.domain.folding.fold import fold
from trackside.domain.outcome import Outcome, standing_of
from trackside.domain.proposal import parse_cause
from trackside.domain.streams import child
from trackside.domain.streams.causality import StreamSubject
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task_events import TaskEvent
from trackside.replay.causality.event_text import brief
from trackside.replay.causality.inferred_causes import inferred_cause


@dataclass(frozen=True, slots=True)
class Step:
    """One event: its writer, its subject, and the offset of the event that caused it (-1: none).

    `cause` is what the log names as its cause (`ce_causationid`), empty if it names none; `guessed` says that
    `follows` was inferred from the state instead. `outside` is a cause that is no event of the stream: an
    event of another one, or a publication of a command. `index` is its place in its decision. `also` are
    further events that it rests on, such as the end of the trial that a promoted one continues. `part` is
    what of its aggregate it is about, such as a step, and `origins` what it goes back to in other streams.
    """

    offset: int
    time_ms: int
    what: str
    said: str
    role: str
    instance: str
    standing: Standing
    distrust: str
    follows: int = -1
    outside: str = ""
    cause: str = ""
    guessed: bool = False
    index: int = 0
    task: str = ""
    attempt: int = 0
    command: str = ""
    also: Sequence[int] = ()
    part: str = ""
    origins: Sequence[StreamSubject] = ()

    def as_json(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {
            "offset": self.offset,
            "time_ms": self.time_ms,
            "type": self.what,
            "said": self.said,
            "role": self.role,
            "instance": self.instance,
            "outcome": self.standing.value,
            "distrust": self.distrust or None,
            "follows": None if self.follows < 0 else self.follows,
            "also": list(self.also),
            "outside": self.outside or None,
            "cause": self.cause or None,
            "guessed": self.guessed,
            "task_id": self.task or None,
            "attempt": self.attempt or None,
            "command_id": self.command or None,
            "part": self.part or None,
        }


@dataclass(slots=True)
class Causes:
    """Folds the records of one stream, in order, and reads what each of them follows.

    A cause is inferred only before the first event that names one: an older release wrote what came before.
    """

    stream: Stream
    steps: list[Step] = field(default_factory=list)
    _offsets: set[int] = field(default_factory=set)
    _parts: dict[str, int] = field(default_factory=dict)
    """The last event of its aggregate about each part, which the part's tasks and children rest on too."""
    _brought: list[tuple[int, int, int]] = field(default_factory=list)
    """What events have added to the stream: the offset of each, and the numbers of what it has added."""
    _named: bool = False

    def note_outcome(self, record: Record, outcome: Outcome) -> None:
        """Notes what became of a record that waited while its stream was parked."""
        for at, step in enumerate(self.steps):
            if step.offset == record.offset:
                self.steps[at] = replace(step, standing=standing_of(record, outcome))

    def take(self, record: Record) -> Step:
        """Folds a record and returns its step."""
        envelope, event = record.envelope, record.message
        assert isinstance(event, Event)
        task, attempt = self._about(event)
        aggregate = AGGREGATES.by_event.get(type(event))
        cause = envelope.causation_id
        self._named |= bool(cause)
        inferred = -1 if self._named else inferred_cause(self.stream, event)
        outcome = fold(self.stream, record, AGGREGATES)
        follows, outside = self._named_cause(cause) if cause else (-1, "")
        if outcome is Outcome.APPLIED and not cause:
            follows, outside = inferred, _publication(event)
        part = self._part_of(event, task)
        also = self._also_follows(event, part) if outcome is Outcome.APPLIED else ()
        brought = None if aggregate is None else aggregate.causes.brings(event)
        if brought is not None and outcome is Outcome.APPLIED:
            self._brought.append((record.offset, *brought))
        if part and aggregate is not None:
            self._parts[part] = record.offset
        self._offsets.add(record.offset)
        step = Step(
            offset=record.offset,
            time_ms=record.append_time_ms,
            what=type(event).__name__,
            said=brief(event),
            role=envelope.role,
            instance=envelope.source.rpartition("/")[2],
            standing=standing_of(record, outcome),
            distrust=record.distrust,
            follows=follows,
            outside=outside,
            cause=cause,
            guessed=not cause and follows >= 0,
            index=max(0, envelope.index),
            task=task,
            attempt=attempt,
            command=getattr(event, "command_id", ""),
            also=also,
            part=part,
            origins=self._origins(event, cause if outside else ""),
        )
        self.steps.append(step)
        return step

    def _about(self, event: Event) -> tuple[str, int]:
        """Returns the task or child that an event is about, and its attempt; a trial is its task."""
        aggregate = AGGREGATES.by_event.get(type(event))
        if aggregate is not None:
            return aggregate.causes.task_of(self.stream.stream_id, event), 0
        if type(event) in child.KINDS:
            return event.child_id, 0  # type: ignore[attr-defined]  # which KINDS says
        if not isinstance(event, TaskEvent):
            return "", 0
        known = self.stream.tasks.get(event.task_id)
        current = 0 if known is None else known.attempt.number
        return event.task_id, getattr(event, "attempt", current)

    def _part_of(self, event: Event, task: str) -> str:
        """Returns the part that an event is about, or that its task or child is for; empty for none."""
        aggregate = AGGREGATES.by_event.get(type(event))
        if aggregate is not None:
            return aggregate.causes.part_of(event)
        owner = AGGREGATES.of(self.stream)
        return owner.causes.part_of_item(self.stream.root, task) if task and owner is not None else ""

    def _also_follows(self, event: Event, part: str) -> Sequence[int]:
        if isinstance(event, TaskSubmitted | ChildRequested):
            return (self._parts[part],) if part in self._parts else ()
        aggregate = AGGREGATES.by_event.get(type(event))
        if aggregate is None or self.stream.root is None:
            return ()
        found = [at for at in aggregate.causes.also_follows(self.stream, event) if at in self._offsets]
        used = aggregate.causes.uses(event)
        return found + [
            at
            for at, begin, end in self._brought
            if any(first < end and begin < last for first, last in used)
        ]

    def _origins(self, event: Event, outside: str) -> Sequence[StreamSubject]:
        """Returns what an event goes back to in other streams: what it says itself, and its cause there."""
        aggregate = AGGREGATES.by_event.get(type(event))
        own = None if aggregate is None else aggregate.causes.origin_of(event)
        place = parse_cause(outside)
        if place is None or place[0] == self.stream.stream_id:
            return () if own is None else (own,)
        there = StreamSubject(place[0], f"@{place[1]}")
        return (there,) if own is None else (own, there)

    def _named_cause(self, cause: str) -> tuple[int, str]:
        """Returns the offset of a named cause, or what is known of one that is not in this stream."""
        found = parse_cause(cause)
        if found is None:
            return -1, f"message {cause}"
        stream_id, offset = found
        if stream_id == self.stream.stream_id and offset in self._offsets:
            return offset, ""
        return -1, f"event {cause}"


def _publication(event: Event) -> str:
    """Returns where a command was published, and by whom; empty for any other event."""
    if not isinstance(event, CommandReceived):
        return ""
    source = event.source
    return f"{event.publisher or 'someone'} at {source.topic}-{source.partition}@{source.offset}"
