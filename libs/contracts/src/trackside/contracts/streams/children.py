"""Children: streams that are begun, stopped and awaited by another stream, their parent."""

from typing import ClassVar, NamedTuple

from trackside.contracts.envelope.message import DISPATCHER, Event, Json


class WantedChild(NamedTuple):
    """A child that a command asks for: its place in the command, and what is to begin under which id.

    It has no `body` as long as that is not known.
    """

    path: str
    child_id: str
    kind: str
    body: Json | None


class ChildRequested(Event):
    """A stream of another aggregate is to begin, by the command that begins one of this kind, with this body.

    The dispatcher writes that command into the stream `child_id`: its source is the place of this event.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    child_id: str
    kind: str
    body: Json


class ChildStopRequested(Event):
    """A child is to stop. The dispatcher writes the command for it into the child's stream."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    child_id: str
    reason: str


class ChildEnded(Event):
    """A child has ended: `status` is that of its aggregate, or REFUSED if the child was not begun.

    `result` is what its aggregate says of its end; of a refusal, its `problems`.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    child_id: str
    status: str
    result: Json
