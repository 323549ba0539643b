"""Mutants of the fold, which apply what they should refuse, and what is found in logs with them."""

from collections.abc import Callable, Iterable

from tests.unit.domain.given import record_of
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Message, Record
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import Stream
from trackside.verify.verifier import Fold, Verifier

Found = list[tuple[str, str]]
"""Invariants and messages."""


def lax(applies: Callable[[Record], bool] = lambda record: True) -> Fold:
    """Returns a broken fold: what it is told to apply always counts."""
    streams = Streams(AGGREGATES)

    def fold(record: Record) -> tuple[Stream, Outcome]:
        stream, outcome = streams.fold(record)
        return stream, Outcome.APPLIED if applies(record) else outcome

    return fold


def verified(records: Iterable[Record], fold: Fold | None = None, *, whole: bool = True) -> Verifier:
    verifier = Verifier(fold, whole=whole)
    for record in records:
        verifier.take(record)
    return verifier


def found(*events: Message) -> Found:
    """Returns what is found of a stream with these events, all of which a broken fold applies."""
    records = [record_of(event, offset) for offset, event in enumerate(events)]
    return [(each.invariant, each.message) for each in verified(records, lax()).finish()]
