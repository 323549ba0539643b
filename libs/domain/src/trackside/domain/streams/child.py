"""The children of a stream: what their parent knows of them, and which events about them count."""

from dataclasses import dataclass, field
from typing import cast, get_args

from trackside.contracts.envelope.message import Json, Record
from trackside.contracts.streams.children import ChildEnded, ChildRequested, ChildStopRequested
from trackside.domain.outcome import Outcome

ChildEvent = ChildRequested | ChildStopRequested | ChildEnded
KINDS = frozenset(get_args(ChildEvent))
REFUSED = "REFUSED"
"""The status of a child whose first command was refused: it has not begun."""


@dataclass(slots=True)
class Child:
    """A child as folded from the stream of its parent."""

    child_id: str
    """The id of its stream."""
    kind: str
    """The kind of its aggregate."""
    body: Json | None
    """The body of the command that begins it; None once it has ended."""
    requested_at: int
    """Offset of ChildRequested: with the partition of its parent, the source of that command."""
    requested_ms: int
    """When it was requested: append time of ChildRequested, in ms since 1970."""
    stop_requested_at: int = -1
    """Offset of ChildStopRequested; -1 before that."""
    stop_reason: str = ""
    """Why it is to stop; empty before that."""
    status: str = ""
    """How it ended, as its aggregate says it, or REFUSED; empty before that."""
    result: Json = field(default_factory=dict)
    """What its aggregate says of its end, or the problems of its refusal; empty before that."""
    ended_at: int = -1
    """Offset of ChildEnded; -1 before that."""
    ended_ms: int = 0
    """When its parent had its end: append time of ChildEnded, in ms since 1970; 0 before that."""

    @property
    def stopping(self) -> bool:
        """Returns whether it is to stop."""
        return self.stop_requested_at >= 0

    @property
    def state(self) -> str:
        """RUNNING, STOPPING, or how it ended."""
        return self.status or ("STOPPING" if self.stopping else "RUNNING")

    @property
    def open(self) -> bool:
        """Returns whether it has not ended."""
        return self.ended_at < 0


def requested(event: ChildRequested, record: Record) -> Child:
    """Makes the child of a ChildRequested event."""
    return Child(event.child_id, event.kind, event.body, record.offset, record.append_time_ms)


def evolve(child: Child, record: Record) -> Outcome:
    """Folds one event about a child that was requested before."""
    event = record.message
    if isinstance(event, ChildRequested):
        return Outcome.DUPLICATE
    if isinstance(event, ChildStopRequested):
        return _stop_requested(child, event, record)
    return _ended(child, cast(ChildEnded, event), record)


def _stop_requested(child: Child, event: ChildStopRequested, record: Record) -> Outcome:
    if not child.open:
        return Outcome.OVERTAKEN
    if child.stopping:
        return Outcome.DUPLICATE
    child.stop_requested_at, child.stop_reason = record.offset, event.reason
    return Outcome.APPLIED


def _ended(child: Child, event: ChildEnded, record: Record) -> Outcome:
    if not child.open:
        return Outcome.DUPLICATE
    child.status, child.result, child.body = event.status, event.result, None
    child.ended_at, child.ended_ms = record.offset, record.append_time_ms
    return Outcome.APPLIED
