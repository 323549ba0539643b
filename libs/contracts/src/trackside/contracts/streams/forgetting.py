"""Forgetting a stream: its key is deleted, and what stays of it is one event, which says what it was."""

from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from trackside.contracts.envelope.message import DISPATCHER, Command, Event
from trackside.contracts.streams.commands import Source

MAX_REASON = 1_000


class ForgetStream(Command):
    """Asks that the content of an encrypted stream is made unreadable; the reason stays readable.

    This can't be undone.
    """

    reason: str = Field(min_length=1, max_length=MAX_REASON)


class ForgettingCommand(BaseModel):
    """A command that asked for a stream to be forgotten: the log can't be read up to it any more.

    `offset` is that of its CommandReceived.
    """

    model_config = ConfigDict(frozen=True)
    command_id: str
    digest: str
    source: Source
    offset: int


class StreamForgotten(Event):
    """All that was in a stream counts no more, and its key is deleted. It is never encrypted.

    What it says is all that is known of the stream from then on: its kind, its final status, and how many of
    its parts (`unit`: trials, tasks) have ended, `ends`: by how they did. Times are ms since 1970, or 0.
    `follows` is the offset of the last event about a command of the stream: it has no effect if another one
    came since. The `commands` that asked for it are answered after it.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    encryptable: ClassVar[bool] = False
    commands: list[ForgettingCommand]
    reason: str
    rules: int
    kind: str
    status: str
    unit: str
    ended: int
    ends: dict[str, int]
    total: int | None
    started_ms: int
    ended_ms: int
    first_offset: int
    follows: int
