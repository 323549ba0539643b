"""A service as the reactor drives it, and the decisions that it returns."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from trackside.contracts.message import Record
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import Proposal
from trackside.eventlog.log import Entry


@dataclass(frozen=True, slots=True)
class Decision:
    """A proposal on its way into the log: for one stream of one topic.

    `public_key` is that of the stream, if it is encrypted.
    """

    topic: str
    stream: str
    proposal: Proposal
    public_key: str = ""


@dataclass(slots=True)
class Facts:
    """What a decision may use besides the state: the time, and which partitions have appends in flight."""

    now_ms: int
    busy: Callable[[str, str], bool]
    """Returns whether the partition of (topic, stream) has an append in flight: don't decide about it now."""


class Decider(Protocol):
    """A service as the reactor drives it. None of these may block or await."""

    def fold(self, record: Record) -> Outcome:
        """Folds a record of one of our own topics into the state."""
        ...

    def count(self, record: Record) -> None:
        """Counts an event of a decision of this process that was just folded as applied: once for each."""
        ...

    def arrive(self, entry: Entry) -> None:
        """Receives an undecoded entry of a topic that others write to."""
        ...

    def decide(self, facts: Facts) -> Iterable[Decision]:
        """Returns the decisions that the state needs. Called again after any change."""
        ...

    def reconsider(self, stream: str) -> None:
        """Marks a stream to be decided about again: its last decision may not have reached the log."""
        ...

    def act(self, facts: Facts) -> None:
        """Starts the actions that are due; must be idempotent."""
        ...

    def next_due_ms(self) -> int | None:
        """Returns the next time, in ms since 1970, at which something is due without a record."""
        ...
