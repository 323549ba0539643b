"""What is known of the causes of an aggregate's events, beyond what the log itself names."""

from collections.abc import Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from trackside.contracts.envelope.message import Command, Message
from trackside.domain.streams.stream import Stream

S = TypeVar("S")


class StreamSubject(NamedTuple):
    """What an event goes back to in another stream: the subject of a question there, such as an attempt."""

    stream: str
    subject: str


class Causality(Generic[S]):
    """How `replay why` explains the events of an aggregate, and what `verify-log` accepts as their causes.

    All methods are pure. This one is of an aggregate that says nothing of its own.
    """

    commanded: Mapping[type[Message], tuple[type[Command], ...]] = {}
    """The commands that lead to an event, in the decision that accepts them."""
    decided: frozenset[type[Message]] = frozenset()
    """Those events of `commanded` that also follow from other events of the stream."""
    follows_others: frozenset[type[Message]] = frozenset()
    """The events that may rest on an event of another stream."""
    follows_any: frozenset[type[Message]] = frozenset()
    """The events that rest on what the stream had last, which may be a command that is not theirs."""

    def cause_of(self, stream: Stream[S], event: Message) -> int:
        """Returns the offset of what one of its events rests on, or one of its tasks; -1 for nothing.

        `stream` is as it was before the event. Only asked of a log that names no causes.
        """
        root: Any = stream.root
        return int(root.changed_at)

    def also_follows(self, stream: Stream[S], event: Message) -> Sequence[int]:
        """Returns the offsets of further events that one of its events rests on, whatever the log names."""
        return ()

    def brings(self, event: Message) -> tuple[int, int] | None:
        """Returns the numbers of what an event adds to the stream, from the first up to the second; or None.

        Events that use some of it rest on this event, too.
        """
        return None

    def uses(self, event: Message) -> Sequence[tuple[int, int]]:
        """Returns the numbers of what an event uses of that, as ranges."""
        return ()

    def last_control(self, root: S) -> int:
        """Returns the offset of its last event that asked tasks to stop, wait or go on; -1 for none."""
        return -1

    def task_of(self, stream_id: str, event: Message) -> str:
        """Returns the id of the task that one of its events is about; empty for none."""
        return ""

    def part_of(self, event: Message) -> str:
        """Returns the part without a task that one of its events is about; empty for none."""
        return ""

    def part_of_item(self, root: S, item_id: str) -> str:
        """Returns the part that one of its tasks or children is for, named as `part_of` does; empty for none.

        The events of these are then the part's too.
        """
        return ""

    def origin_of(self, event: Message) -> StreamSubject | None:
        """Returns what one of its events goes back to in another stream; None for nothing."""
        return None

    def text_of(self, event: Message) -> str:
        """Returns the content of one of its events as a short line; empty: its fields, as they are."""
        return ""
