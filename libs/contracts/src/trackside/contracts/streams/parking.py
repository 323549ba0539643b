"""Records that a release can't interpret park their stream; an operator may skip one of them."""

import re
from typing import ClassVar

from pydantic import Field

from trackside.contracts.envelope.message import (
    DISPATCHER,
    SCHEDULER,
    SUMMARY_INDEXER,
    WORKER,
    Command,
    Event,
)

ROLES = DISPATCHER | SCHEDULER | WORKER | SUMMARY_INDEXER
_WIRE_TYPE = re.compile(r"trackside\.[a-z][a-z0-9-]{0,99}\.v[1-9][0-9]{0,3}")


def is_wire_type(text: str) -> bool:
    """Returns whether a text has the form of a type of our messages, such as `trackside.task-held.v1`."""
    return _WIRE_TYPE.fullmatch(text) is not None


class SkipRecord(Command):
    """Asks that a stream continues without the record that parked it, at this place of the events topic."""

    partition: int = Field(ge=0)
    offset: int = Field(ge=0)
    reason: str = Field(min_length=1, max_length=1_000)


class RecordSkipped(Event):
    """A record that parked its stream counts for no reader; what came since is read again and folded."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    partition: int
    offset: int
    reason: str


class UnknownRecord(Event):
    """What stands for a record of a type that this release doesn't have; it is never written.

    Of the summary-indexer none counts: its events are about its own jobs, and nothing waits for them.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER | SCHEDULER | WORKER
    unknown_type: str
