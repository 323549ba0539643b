"""A stream: one root with everything that belongs to it, folded from one partition of the log.

`fold` is what makes the log the arbiter. Every reader folds with it, so every reader agrees on which
events count: the first of an identity that the state permits, written by a role that may write it, and
with it the rest of its decision.
"""

from dataclasses import dataclass, field
from typing import Annotated, cast, get_args

from pydantic import PlainSerializer

from trackside.contracts.batches import BatchStarted
from trackside.contracts.commands import RULES, CommandAccepted, CommandReceived, CommandRefused
from trackside.contracts.message import Record
from trackside.contracts.searches import SearchStarted, TrialEnded, TrialSuggested
from trackside.contracts.tasks import TaskSubmitted
from trackside.domain import batch, command, past, search, search_advice, search_changes, task_events
from trackside.domain.batch import Batch
from trackside.domain.outcome import Outcome
from trackside.domain.past import Row
from trackside.domain.search import Search
from trackside.domain.task import Task, TaskState

ANSWERS = frozenset({CommandAccepted, CommandRefused})
_CHANGES = frozenset(get_args(search.Change))
_ADVICE = frozenset(get_args(search_advice.Advice))


class UnsupportedRulesError(Exception):
    """A stream was begun with guards that this release doesn't have: nobody may guess."""


@dataclass(slots=True)
class Stream:
    """The state of one stream. `closed`: its root is over, and only commands are still answered.

    `past` is what the assessor of its search is told; without one it is empty. `asking` are the tasks whose
    process waits for another trial's parameters.
    """

    stream_id: str
    partition: int
    rules: int = 0
    first_offset: int = -1
    last_offset: int = -1
    traceparent: str = ""
    commands: command.Commands = field(default_factory=dict)
    search: Search | None = None
    batch: Batch | None = None
    tasks: dict[str, Task] = field(default_factory=dict)
    past: list[Row] = field(default_factory=list)
    asking: Annotated[set[str], PlainSerializer(sorted, return_type=list[str])] = field(default_factory=set)
    ignored_decision: bytes = b""

    @property
    def closed(self) -> bool:
        """Says whether the root of the stream is over."""
        if self.batch is not None:
            return self.batch.status in batch.OVER
        return self.search is not None and self.search.status in search.OVER

    @property
    def unanswered(self) -> bool:
        """Says whether a publication of a command still wants an answer."""
        return any(
            not publication.answered
            for received in self.commands.values()
            for publication in received.publications
        )


def shrink(stream: Stream) -> None:
    """Forgets the trials and tasks of a closed stream: nothing that arrives for it looks at them."""
    if not stream.closed:
        return
    stream.tasks.clear()
    stream.past.clear()
    stream.asking.clear()
    if stream.search is not None:
        stream.search.trials.clear()
        stream.search.opened.clear()
        stream.search.ends.clear()
        stream.search.front.clear()
        stream.search.added.clear()
        stream.search.imported.clear()


def fold(stream: Stream, record: Record) -> Outcome:
    """Folds one record of the stream's partition. Never raises but UnsupportedRulesError.

    A decision is whole: if its first event has no effect, neither has the rest, nor has an event whose
    place in its decision can't be read.
    """
    envelope = record.envelope
    decision = envelope.decision_id
    index = envelope.index if decision else 0
    if index < 0 or (index and decision == stream.ignored_decision):
        return Outcome.OVERTAKEN
    outcome = _apply(stream, record)
    if index == 0:
        stream.ignored_decision = b"" if outcome is Outcome.APPLIED else decision
    if outcome is Outcome.APPLIED:
        stream.last_offset = record.offset
    return outcome


def _apply(stream: Stream, record: Record) -> Outcome:
    event, kind = record.message, type(record.message)  # each isinstance that says no costs 0.3 us
    if record.envelope.role not in event.written_by:
        return Outcome.OVERTAKEN
    if kind is CommandReceived:
        return _received(stream, cast(CommandReceived, event), record)
    if stream.rules == 0:
        return Outcome.OVERTAKEN
    if kind in ANSWERS:
        return command.answered(stream.commands, cast(CommandAccepted | CommandRefused, event), record.offset)
    if stream.closed:
        return Outcome.OVERTAKEN
    if kind in task_events.KINDS:
        return _task_event(stream, event, record)  # type: ignore[arg-type]  # which KINDS says
    if stream.search is not None:
        if kind in _CHANGES:
            return search_changes.evolve(stream.search, cast(search.Change, event), record)
        if kind in _ADVICE:
            return search_advice.evolve(stream.search, cast(search_advice.Advice, event), record)
        outcome = search.evolve(stream.search, stream.tasks, record)
        if outcome is Outcome.APPLIED:
            stream.search.changed_at = record.offset
        if isinstance(event, TrialEnded) and outcome is Outcome.APPLIED:
            stream.past += past.of_end(stream.search, event)
        elif isinstance(event, TrialSuggested) and outcome is Outcome.APPLIED:
            stream.asking.discard(event.within)
        return outcome
    if stream.batch is not None:
        return batch.evolve(stream.batch, record)
    return _root_started(stream, record)


def _root_started(stream: Stream, record: Record) -> Outcome:
    match record.message:
        case SearchStarted() as event:
            stream.search = search.started(stream.stream_id, event, record)
        case BatchStarted() as event:
            stream.batch = batch.started(stream.stream_id, event, record)
        case _:
            return Outcome.OVERTAKEN
    return Outcome.APPLIED


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


def _task_event(stream: Stream, event: task_events.TaskEvent, record: Record) -> Outcome:
    known = stream.tasks.get(event.task_id)
    if known is not None:
        reports = len(known.reports)
        outcome = task_events.evolve(known, record)
        if stream.search is not None and len(known.reports) != reports:
            stream.past += past.of_task(stream.search, known, reports, event)
        if known.requested:
            _note_request(stream, known, record.offset)
        if stream.batch is not None and known.state is TaskState.ENDED:
            batch.note_ended(stream.batch, known, record.offset)
        return outcome
    if not isinstance(event, TaskSubmitted) or not _may_submit(stream, event):
        return Outcome.OVERTAKEN
    stream.tasks[event.task_id] = task_events.submitted(event, record)
    if stream.batch is not None:
        batch.note_submitted(stream.batch, event.task_id)
    return Outcome.APPLIED


def _note_request(stream: Stream, task: Task, offset: int) -> None:
    """Keeps who asks, and that a task is idle no more when it has ended."""
    (stream.asking.add if task.asks else stream.asking.discard)(task.task_id)
    search = stream.search
    if task.idle and task.state is TaskState.ENDED and search is not None and task.task_id in search.idle:
        search.idle.remove(task.task_id)
        search.changed_at = offset


def _may_submit(stream: Stream, event: TaskSubmitted) -> bool:
    """Says whether a task belongs to the newest trial of the search, or is the next one of the batch."""
    if stream.batch is not None:
        return batch.may_submit(stream.batch, event)
    if event.trial is None:
        return stream.search is None
    search = stream.search
    newest = search is not None and event.trial == len(search.trials) - 1
    return newest and search is not None and not search.trials[-1].within
