"""A proposal: what a service wants to append, until the log has decided whether it counts."""

from collections.abc import Sequence
from dataclasses import dataclass

from trackside.contracts.envelope.message import Event


@dataclass(frozen=True, slots=True)
class Proposal:
    """Events that count together or not at all, and what they rest on.

    `span` names the decision, for its trace; `traceparent` is the parent of that span. Events that begin a
    trace of their own carry `begins_trace`, others the span of the decision. `follows` is the offset of the
    event that it rests on, in the log of the same stream or of stream `follows_in`: -1 if it rests on none.
    It is written as `ce_causationid`, see `cause_of`.
    """

    span: str
    events: Sequence[Event]
    follows: int = -1
    traceparent: str = ""
    follows_in: str = ""
    begins_trace: str = ""


def cause_of(stream: str, offset: int) -> str:
    """Returns the `ce_causationid` that names the event of a stream at an offset: `<stream>@<offset>`.

    Empty if the offset is negative: there is no such event.
    """
    return f"{stream}@{offset}" if offset >= 0 else ""


def parse_cause(text: str) -> tuple[str, int] | None:
    """Returns the stream and the offset that a `ce_causationid` names, or None if it names none."""
    stream, at, offset = text.rpartition("@")
    readable = at and stream and offset.isascii() and offset.isdigit() and len(offset) < 20
    return (stream, int(offset)) if readable else None
