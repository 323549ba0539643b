"""The fold: what makes the log the arbiter.

Every reader folds with it, so every reader agrees on which events count: the first of an identity that the
state permits, written by a role that may write it, and with it the rest of its decision.
"""

from typing import Any, cast

from trackside.contracts.envelope.message import Message, Record
from trackside.contracts.envelope.trusted_keys import Trust
from trackside.contracts.fleet.draining import DeviceDrained, DeviceResumed
from trackside.contracts.streams.children import ChildRequested, ChildStopRequested
from trackside.contracts.streams.commands import RULES, CommandAccepted, CommandReceived, CommandRefused
from trackside.contracts.streams.forgetting import StreamForgotten
from trackside.contracts.streams.keys import KEYS_STREAM
from trackside.contracts.streams.labels import StreamAnnotated
from trackside.contracts.streams.parking import RecordSkipped, UnknownRecord
from trackside.contracts.streams.watches import TasksWatched
from trackside.contracts.tasks.artifacts import ArtifactsForgotten
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.contracts.trust.encryption import PUBLIC_KEY, EncryptedRecord
from trackside.contracts.trust.trust import distrust_of, next_digest
from trackside.domain.folding import task_commands
from trackside.domain.folding.aggregate import Aggregates, AggregateType
from trackside.domain.outcome import Outcome
from trackside.domain.streams import (
    child,
    command,
    draining,
    forgetting,
    key_events,
    labels,
    parking,
    watches,
    worker_events,
)
from trackside.domain.streams.stream import Stream, forget
from trackside.domain.tasks import task_events
from trackside.domain.tasks.retries import KEPT_ATTEMPTS
from trackside.domain.tasks.task import Task

ANSWERS = frozenset({CommandAccepted, CommandRefused})
DRAINS = frozenset({DeviceDrained, DeviceResumed})
AFTER_CLOSE = frozenset({CommandReceived, *ANSWERS, *DRAINS, ArtifactsForgotten, StreamAnnotated})
"""The events that are applied to a stream that is closed too; none of them closes one."""
UNPARKING = frozenset[type[Message]]((RecordSkipped, StreamForgotten))
"""The events after which a stream that was parked is so no more."""
_PARKING = frozenset[type[Message]]((UnknownRecord, EncryptedRecord))


_COUNTED = frozenset[type[Message]]((CommandReceived, CommandAccepted, CommandRefused, *UNPARKING))
"""The events that count in a parked stream when they come, or not at all."""


def fold(stream: Stream, record: Record, aggregates: Aggregates) -> Outcome:
    """Folds one record of the stream's partition. Never raises.

    A decision is whole: if its first event has no effect, neither has the rest, nor has an event whose
    place in its decision can't be read.

    A record that only a newer release can interpret parks the stream. When an operator has that record
    skipped, the rest of its decision has no effect. Then `Stream.released` is set: the caller reads the
    records of the stream again from there and folds them, up to this one at least, before any that follow.
    Those that have counted when they came are passed over, with the outcome parked.

    A reader without the key of a stream has it parked, until it is forgotten. From then on its state follows
    from what each reader can read, so nothing that is encrypted counts any more.
    """
    envelope = record.envelope
    decision = envelope.decision_id
    index = envelope.index if decision else 0
    if index < 0:
        return Outcome.OVERTAKEN
    if record.trust is not None and record.trust.requires(record.offset) and not _is_trusted(stream, record):
        return Outcome.OVERTAKEN  # it leaves no trace: as if it were not there
    if PUBLIC_KEY in envelope.headers and worker_events.has_another_key(stream, record):
        return Outcome.OVERTAKEN  # for readers that can decrypt it, too
    if forgetting.is_about_commands(record):  # before all that not each reader knows
        stream.commands_at = max(stream.commands_at, record.offset)  # older ones may have been held
    if index and decision == stream.ignored_decision:
        return Outcome.OVERTAKEN
    if stream.forgotten is not None and PUBLIC_KEY in envelope.headers:
        return _ignored(stream, index, decision)
    kind, released = type(record.message), stream.released
    if released is not None and kind in _COUNTED and record.offset <= released.offset:
        return _passed_over(stream, record, released, index)
    if kind is StreamForgotten:
        outcome = _stream_forgotten(stream, cast(StreamForgotten, record.message), record)
    elif stream.parked is not None or kind in _PARKING:
        outcome = _fold_parked(stream, record)
    else:
        outcome = _apply(stream, record, aggregates)
    if outcome is Outcome.PARKED:
        return outcome
    if index == 0 and (released is not None or stream.released is None):  # not of what releases it
        stream.ignored_decision = b"" if outcome is Outcome.APPLIED else decision
    if outcome is Outcome.APPLIED:
        stream.last_offset = max(stream.last_offset, record.offset)
    return outcome


def _ignored(stream: Stream, index: int, decision: bytes) -> Outcome:
    """Ignores a record whatever is in it, and with it the rest of its decision."""
    if index == 0:
        stream.ignored_decision = decision
    return Outcome.OVERTAKEN


def _passed_over(stream: Stream, record: Record, released: parking.Released, index: int) -> Outcome:
    """Passes over a record that was folded when it came; the rest of its decision counts if it did."""
    event = record.message
    if isinstance(event, RecordSkipped):
        counted = record.offset == released.offset
    elif isinstance(event, StreamForgotten) or record.envelope.role not in event.written_by:
        counted = False
    else:
        asked = cast(CommandReceived | CommandAccepted | CommandRefused, event)
        counted = command.has_counted(stream.commands, asked, record.offset)
    if index == 0:
        stream.ignored_decision = b"" if counted else record.envelope.decision_id
    return Outcome.PARKED


def _fold_parked(stream: Stream, record: Record) -> Outcome:
    """Folds a record of a parked stream, or one that parks it: only commands still count."""
    event, parked = record.message, stream.parked
    if record.envelope.role not in event.written_by:
        return Outcome.OVERTAKEN
    if isinstance(event, EncryptedRecord):
        return _without_key(stream, event, record)
    if parked is None:
        if worker_events.is_unplaced(stream, record) or stream.stream_id.startswith(KEYS_STREAM):
            return Outcome.OVERTAKEN  # none of these roles writes about keys
        return _park(stream, record, parking.needed_type(cast(UnknownRecord, event).unknown_type))
    if isinstance(event, RecordSkipped):
        if not parking.is_place(event, parked, stream.partition):
            return Outcome.OVERTAKEN
        _release(stream, parked, record)
        stream.skipped.append(parking.skipped_by(event, parked, record))
        return Outcome.APPLIED
    if isinstance(event, CommandReceived) and (stream.rules or event.rules == RULES):
        return _received(stream, event, record)
    if isinstance(event, CommandAccepted | CommandRefused):
        return command.answered(stream.commands, event, record.offset)
    worker_events.note_heard(stream, parked, event)
    return Outcome.PARKED


def _release(stream: Stream, parked: parking.Parked, record: Record) -> None:
    """Gets the stream folded again from the record on that parked it."""
    stream.parked, stream.released = None, parking.Released(parked.offset, record.offset)
    stream.next_digest, stream.ignored_decision = parked.next_digest, parked.decision.encode()


def _without_key(stream: Stream, event: EncryptedRecord, record: Record) -> Outcome:
    """Folds a record that this reader can't read: it parks the stream, and begins one as a command does."""
    if stream.rules == 0 and stream.parked is None:
        if not forgetting.may_begin(record, event):
            return Outcome.OVERTAKEN
        stream.public_key = record.envelope.text(PUBLIC_KEY)
    if stream.lacks_key:
        return Outcome.PARKED
    return _park(stream, record, parking.ITS_KEY)


def _stream_forgotten(stream: Stream, event: StreamForgotten, record: Record) -> Outcome:
    """Folds that a stream is forgotten; by what readers without its key know too."""
    if stream.forgotten is not None:
        return Outcome.DUPLICATE
    if record.envelope.role not in event.written_by or record.envelope.index:
        return Outcome.OVERTAKEN
    if not stream.public_key or event.follows != stream.commands_at:
        return Outcome.OVERTAKEN
    forget(stream, forgetting.forgotten_by(event, record), forgetting.forgetting_commands(event))
    stream.rules, stream.first_offset = event.rules, event.first_offset
    stream.next_digest = next_digest(record)
    return Outcome.APPLIED


def _park(stream: Stream, record: Record, needs: str) -> Outcome:
    stream.parked = parking.parked_by(record, needs, stream.next_digest)
    return Outcome.PARKED


def _is_trusted(stream: Stream, record: Record) -> bool:
    """Returns whether a record is signed as its place in the log wants it; what follows must be, too."""
    assert record.trust is not None
    unsigned = distrust_of(record.trust, record, stream.next_digest)
    record.distrust = unsigned or worker_events.distrust_of_placement(stream, record)
    if not record.distrust:
        stream.next_digest = next_digest(record)
    return not record.distrust


def _apply(stream: Stream, record: Record, aggregates: Aggregates) -> Outcome:
    event, kind = record.message, type(record.message)  # each isinstance that says no costs 0.3 us
    if record.envelope.role not in event.written_by:
        return Outcome.OVERTAKEN
    if kind is CommandReceived:
        return _received(stream, cast(CommandReceived, event), record)
    if stream.forgotten is not None and kind not in ANSWERS:
        return Outcome.OVERTAKEN
    if kind in key_events.KINDS:
        return _key_event(stream, record)
    if stream.rules == 0:
        return Outcome.OVERTAKEN
    if kind in ANSWERS:
        return _answered(stream, cast(CommandAccepted | CommandRefused, event), record.offset)
    if kind is ArtifactsForgotten:
        return _forgotten(stream, cast(ArtifactsForgotten, event), aggregates)
    if kind in DRAINS:
        return _drained(stream, cast(DeviceDrained | DeviceResumed, event), record)
    root = stream.root
    if root is None:
        return _without_root(stream, record, aggregates)
    if kind is StreamAnnotated:
        return _annotated(stream, cast(StreamAnnotated, event), record)
    if stream.closed:
        return Outcome.OVERTAKEN
    aggregate = aggregates.by_kind[stream.kind]
    if kind in task_events.KINDS:
        return _task_event(stream, aggregate, record)
    if aggregates.by_event.get(kind) is not aggregate:
        if kind in child.KINDS:
            return _child_event(stream, aggregate, record)
        return _other(stream, record)
    outcome = aggregate.evolve(root, stream.tasks, record)
    stream.closed = root.closed
    return outcome


def _key_event(stream: Stream, record: Record) -> Outcome:
    """Folds an event about keys; the first one begins their stream, the only one in its partition."""
    if record.trust is not stream.trust:
        return Outcome.OVERTAKEN
    trust = Trust() if stream.trust is None else stream.trust
    outcome = key_events.evolve(trust, record)
    if outcome is Outcome.APPLIED and stream.trust is None:
        stream.trust = trust
        stream.rules = RULES
        stream.first_offset = record.offset
    return outcome


def _forgotten(stream: Stream, event: ArtifactsForgotten, aggregates: Aggregates) -> Outcome:
    """Folds what a closed stream has too; not if a task has come to need it meanwhile."""
    used = task_commands.in_use(stream)
    needed = any(digest in used for digest in event.artifacts)
    aggregate = aggregates.of(stream)
    if aggregate is not None and not needed and not stream.closed:
        aggregate.artifacts_forgotten(stream.root, event.artifacts)
    return Outcome.OVERTAKEN if needed else Outcome.APPLIED


def _annotated(stream: Stream, event: StreamAnnotated, record: Record) -> Outcome:
    """Folds a change of labels, which a closed stream has too; each command changes them once."""
    outcome = _carried_out(stream, event.command_id)
    if outcome is Outcome.APPLIED:
        stream.labels = labels.changed(stream.labels, event, record)
    return outcome


def _drained(stream: Stream, event: DeviceDrained | DeviceResumed, record: Record) -> Outcome:
    """Folds that a device is drained or resumed, which needs no aggregate; each command does so once."""
    outcome = _carried_out(stream, event.command_id)
    if outcome is Outcome.APPLIED:
        draining.change(stream.drained, event, record)
    return outcome


def _carried_out(stream: Stream, command_id: str) -> Outcome:
    """Marks a command as carried out; one that the stream does not know (any longer) has no effect."""
    asked = stream.commands.get(command_id)
    if asked is None:
        return Outcome.OVERTAKEN
    if asked.carried_out:
        return Outcome.DUPLICATE
    asked.carried_out = True
    return Outcome.APPLIED


def _received(stream: Stream, event: CommandReceived, record: Record) -> Outcome:
    if stream.rules == 0:
        if not stream.public_key:
            stream.public_key = record.envelope.text(PUBLIC_KEY)
        if event.rules != RULES:
            return _park(stream, record, parking.needed_rules(event.rules))
        stream.rules = event.rules
        stream.first_offset = record.offset
        stream.traceparent = record.envelope.traceparent
    return command.received(stream.commands, event, record)


def _answered(stream: Stream, event: CommandAccepted | CommandRefused, offset: int) -> Outcome:
    """Folds an answer; who published an accepted command counts for what that opens."""
    known = stream.commands.get(event.command_id)
    publisher = "" if known is None else known.publisher
    outcome = command.answered(stream.commands, event, offset)
    accepted = outcome is Outcome.APPLIED and type(event) is CommandAccepted
    if publisher and accepted and (stream.root is None or stream.root.over):
        stream.publisher = publisher
    return outcome


def _without_root(stream: Stream, record: Record, aggregates: Aggregates) -> Outcome:
    """Folds an event of a stream whose aggregate has not begun: tasks of no aggregate are admitted."""
    event, kind = record.message, type(record.message)
    begun = aggregates.begun_by(kind)
    if begun is not None:
        stream.kind = begun.kind
        stream.root = begun.begin(stream.stream_id, event, record)
        return Outcome.APPLIED
    if kind not in task_events.KINDS:
        return _other(stream, record)
    known = stream.tasks.get(event.task_id)  # type: ignore[attr-defined]  # which KINDS says
    if known is not None:
        outcome = _evolve_task(stream, known, record)
        if outcome is Outcome.APPLIED and stream.watches:
            watches.note(stream.watches, known, record)
        return outcome
    if not isinstance(event, TaskSubmitted) or event.part is not None:
        return Outcome.OVERTAKEN
    stream.tasks[event.task_id] = task_events.submitted(event, record)
    return Outcome.APPLIED


def _other(stream: Stream, record: Record) -> Outcome:
    """Folds an event that is of no aggregate, task, child or command."""
    event = record.message
    if not isinstance(event, TasksWatched):
        return Outcome.OVERTAKEN
    return watches.begin(stream.watches, stream.tasks, event, record)


def _evolve_task(stream: Stream, task: Task, record: Record) -> Outcome:
    """Folds an event into its task, and counts the placements of workers."""
    before = task.place
    outcome = task_events.evolve(task, record)
    if task.place is not before:
        worker_events.move_placement(stream, before, task.place)
    return outcome


def _task_event(stream: Stream, aggregate: AggregateType[Any], record: Record) -> Outcome:
    event = record.message
    known = stream.tasks.get(event.task_id)  # type: ignore[attr-defined]  # which KINDS says
    if known is not None:
        reports = len(known.reports)
        outcome = _evolve_task(stream, known, record)
        if outcome is Outcome.APPLIED:
            if len(known.attempts) > KEPT_ATTEMPTS and known.needs.service is not None:
                stream.crowded[known.task_id] = None
            aggregate.task_changed(stream.root, known, record, reports)
            if stream.watches:
                watches.note(stream.watches, known, record)
        return outcome
    if not isinstance(event, TaskSubmitted) or not aggregate.admits(stream.root, event):
        return Outcome.OVERTAKEN
    task = stream.tasks[event.task_id] = task_events.submitted(event, record)
    aggregate.task_submitted(stream.root, task, record)
    return Outcome.APPLIED


def _child_event(stream: Stream, aggregate: AggregateType[Any], record: Record) -> Outcome:
    event = cast(child.ChildEvent, record.message)
    known = stream.children.get(event.child_id)
    if known is not None:
        outcome = child.evolve(known, record)
        if outcome is Outcome.APPLIED:
            aggregate.child_changed(stream.root, known, record)
        return outcome
    if stream.root.has_settled(event.child_id):  # as if it was still there
        return Outcome.OVERTAKEN if isinstance(event, ChildStopRequested) else Outcome.DUPLICATE
    if not isinstance(event, ChildRequested) or not aggregate.admits_child(stream.root, event):
        return Outcome.OVERTAKEN
    new = stream.children[event.child_id] = child.requested(event, record)
    aggregate.child_changed(stream.root, new, record)
    return Outcome.APPLIED
