"""A service as the reactor drives it, and the decisions that it returns."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from trackside.contracts.envelope.message import Record
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import Proposal
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.log import Entry

TURN_S = 0.05
"""For how long a service decides before it sends its decisions, and reads and answers again."""


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
class DecisionContext:
    """What a decision may use besides the state: the time, and which partitions have appends in flight.

    `until_s` is when the turn ends, on the monotonic clock; `is_cut` says that more is to be decided then.
    """

    now_ms: int
    busy: Callable[[str, str], bool]
    """Returns whether the partition of (topic, stream) has an append in flight: don't decide about it now."""
    until_s: float = math.inf
    is_cut: bool = False

    def is_over(self) -> bool:
        """Returns whether the turn is over: what is left is decided in the next one, which comes at once."""
        if not self.is_cut and monotonic_s() >= self.until_s:
            self.is_cut = True
        return self.is_cut


class Decider(Protocol):
    """A service as the reactor drives it. None of these may block or await."""

    def fold(self, record: Record) -> Outcome:
        """Folds a record of one of our own topics into the state."""
        ...

    def count(self, record: Record) -> None:
        """Counts an event of a decision of this process that was just folded as applied: once for each."""
        ...

    def on_external_entry(self, entry: Entry) -> None:
        """Receives an undecoded entry of a topic that others write to."""
        ...

    def decide(self, context: DecisionContext) -> Iterable[Decision]:
        """Returns the decisions that the state needs. Called again after any change, and after a cut turn."""
        ...

    def reconsider(self, stream: str) -> None:
        """Marks a stream to be decided about again: its last decision may not have reached the log."""
        ...

    def act(self, context: DecisionContext) -> None:
        """Starts the actions that are due; must be idempotent."""
        ...

    def next_due_ms(self) -> int | None:
        """Returns the next time, in ms since 1970, at which something is due without a record."""
        ...
