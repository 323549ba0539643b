"""A stream: its aggregate with everything that belongs to it, folded from one partition of the log.

`fold` is what makes the log the arbiter. Every reader folds with it, so every reader agrees on which
events count: the first of an identity that the state permits, written by a role that may write it, and
with it the rest of its decision.
"""

from dataclasses import dataclass, field
from typing import Any, Generic, cast

from typing_extensions import TypeVar

from trackside.contracts.commands import RULES, CommandAccepted, CommandReceived, CommandRefused
from trackside.contracts.message import Record
from trackside.contracts.tasks import TaskSubmitted
from trackside.domain import command, task_events
from trackside.domain.aggregate import Aggregates, AggregateType
from trackside.domain.outcome import Outcome
from trackside.domain.task import Task

ANSWERS = frozenset({CommandAccepted, CommandRefused})
S = TypeVar("S", default=Any)


class UnsupportedRulesError(Exception):
    """A stream was begun with guards that this release doesn't have: nobody may guess."""


@dataclass(slots=True)
class Stream(Generic[S]):
    """The state of one stream; `root` is the state of its aggregate, of type `kind`, once that has begun."""

    stream_id: str
    partition: int
    kind: str = ""
    rules: int = 0
    first_offset: int = -1
    last_offset: int = -1
    traceparent: str = ""
    commands: command.Commands = field(default_factory=dict)
    root: S = cast(Any, None)  # noqa: RUF009  # until its aggregate has begun
    tasks: dict[str, Task] = field(default_factory=dict)
    ignored_decision: bytes = b""

    @property
    def closed(self) -> bool:
        """Says whether the end of its aggregate is final: only commands are still answered."""
        return self.root is not None and bool(cast(Any, self.root).closed)

    @property
    def unanswered(self) -> bool:
        """Says whether a publication of a command still wants an answer."""
        return any(
            not publication.answered
            for received in self.commands.values()
            for publication in received.publications
        )


def shrink(stream: Stream) -> None:
    """Forgets the tasks of a closed stream and the bulk of its root: nothing that comes later reads them."""
    root = stream.root
    if root is None or not root.closed:
        return
    stream.tasks.clear()
    root.release()


def fold(stream: Stream, record: Record, aggregates: Aggregates) -> Outcome:
    """Folds one record of the stream's partition. Never raises but UnsupportedRulesError.

    A decision is whole: if its first event has no effect, neither has the rest, nor has an event whose
    place in its decision can't be read.
    """
    envelope = record.envelope
    decision = envelope.decision_id
    index = envelope.index if decision else 0
    if index < 0 or (index and decision == stream.ignored_decision):
        return Outcome.OVERTAKEN
    outcome = _apply(stream, record, aggregates)
    if index == 0:
        stream.ignored_decision = b"" if outcome is Outcome.APPLIED else decision
    if outcome is Outcome.APPLIED:
        stream.last_offset = record.offset
    return outcome


def _apply(stream: Stream, record: Record, aggregates: Aggregates) -> Outcome:
    event, kind = record.message, type(record.message)  # each isinstance that says no costs 0.3 us
    if record.envelope.role not in event.written_by:
        return Outcome.OVERTAKEN
    if kind is CommandReceived:
        return _received(stream, cast(CommandReceived, event), record)
    if stream.rules == 0:
        return Outcome.OVERTAKEN
    if kind in ANSWERS:
        return command.answered(stream.commands, cast(CommandAccepted | CommandRefused, event), record.offset)
    root = stream.root
    if root is None:
        return _without_root(stream, record, aggregates)
    if root.closed:
        return Outcome.OVERTAKEN
    aggregate = aggregates.by_kind[stream.kind]
    if kind in task_events.KINDS:
        return _task_event(stream, aggregate, record)
    return aggregate.evolve(root, stream.tasks, record) if kind in aggregate.events else Outcome.OVERTAKEN


def _received(stream: Stream, event: CommandReceived, record: Record) -> Outcome:
    if stream.rules == 0:
        if event.rules != RULES:
            raise UnsupportedRulesError(
                f"stream {stream.stream_id} was begun with rules {event.rules}, this release has {RULES}; "
                "run a release that has them"
            )
        stream.rules = event.rules
        stream.first_offset = record.offset
        stream.traceparent = record.envelope.traceparent
    return command.received(stream.commands, event, record)


def _without_root(stream: Stream, record: Record, aggregates: Aggregates) -> Outcome:
    """Folds an event of a stream whose aggregate has not begun: tasks of no aggregate are admitted."""
    event, kind = record.message, type(record.message)
    begun = aggregates.begun_by(kind)
    if begun is not None:
        stream.kind = begun.kind
        stream.root = begun.begin(stream.stream_id, event, record)
        return Outcome.APPLIED
    if kind not in task_events.KINDS:
        return Outcome.OVERTAKEN
    known = stream.tasks.get(event.task_id)  # type: ignore[attr-defined]  # which KINDS says
    if known is not None:
        return task_events.evolve(known, record)
    if not isinstance(event, TaskSubmitted) or event.trial is not None:
        return Outcome.OVERTAKEN
    stream.tasks[event.task_id] = task_events.submitted(event, record)
    return Outcome.APPLIED


def _task_event(stream: Stream, aggregate: AggregateType[Any], record: Record) -> Outcome:
    event = record.message
    known = stream.tasks.get(event.task_id)  # type: ignore[attr-defined]  # which KINDS says
    if known is not None:
        reports = len(known.reports)
        outcome = task_events.evolve(known, record)
        if outcome is Outcome.APPLIED:
            aggregate.task_changed(stream.root, known, record, reports)
        return outcome
    if not isinstance(event, TaskSubmitted) or not aggregate.admits(stream.root, event):
        return Outcome.OVERTAKEN
    task = stream.tasks[event.task_id] = task_events.submitted(event, record)
    aggregate.task_submitted(stream.root, task, record)
    return Outcome.APPLIED
