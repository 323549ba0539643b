"""Labels: the tags and the note that people give a stream, and whether it is archived."""

from typing import Annotated, ClassVar

from pydantic import Field

from trackside.contracts.envelope.ids import Identifier
from trackside.contracts.envelope.message import DISPATCHER, Command, Event

MAX_TAGS = 32
"""How many tags a stream may have."""
MAX_TAG = 64
MAX_NOTE = 4_000
"""Characters of a tag and of a note."""
_Tags = Annotated[list[Annotated[Identifier, Field(max_length=MAX_TAG)]], Field(max_length=MAX_TAGS)]


class AnnotateStream(Command):
    """Asks for other labels of a stream; what is absent stays.

    Tags of `remove_tags` are removed before those of `add_tags` are added. An empty note removes the note.
    Lists of streams leave out what is archived; nothing else changes by that.
    """

    add_tags: _Tags = Field(default=[])
    remove_tags: _Tags = Field(default=[])
    note: str | None = Field(default=None, max_length=MAX_NOTE)
    archived: bool | None = None


class StreamAnnotated(Event):
    """The labels of a stream have changed, as its command has asked for; also after the stream's end."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    added_tags: list[str] = Field(default=[])
    removed_tags: list[str] = Field(default=[])
    note: str | None = None
    archived: bool | None = None
