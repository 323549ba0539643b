"""The chains of causes in a log: every event rests on another, and at the beginning is a command."""

from collections import Counter
from collections.abc import Iterable

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Event, Record
from trackside.contracts.streams.commands import CommandReceived
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import parse_cause

Place = tuple[str, int]


def check_causes(records: Iterable[Record]) -> Counter[type[Event]]:
    """Follows the causes of all events that were applied to their beginning; returns how many of each type.

    An event that was not applied has a cause too. A command may rest on an event of another stream, whose
    child its own is.
    """
    streams, causes = Streams(AGGREGATES), dict[Place, Place | None]()
    ignored: list[tuple[Place, Place]] = []
    applied: Counter[type[Event]] = Counter()
    for record in records:
        event, place = record.message, (record.envelope.stream, record.offset)
        assert isinstance(event, Event)
        outcome = streams.fold(record)[1]
        cause = parse_cause(record.envelope.causation_id)
        if isinstance(event, CommandReceived):
            assert cause is None or cause[0] != place[0], f"{place}: a command rests on its source"
            causes[place] = cause
        else:
            assert cause is not None, f"{place}: {event!r} by {record.envelope.role} names no cause"
            assert cause[0] != place[0] or cause in causes, f"{place}: {event!r} rests on {cause}"
            if outcome is Outcome.APPLIED:
                causes[place] = cause
            else:
                ignored.append((place, cause))
        applied[type(event)] += outcome is Outcome.APPLIED
    checked: set[Place] = set()
    for place in causes:
        _check_chain(place, causes, checked)
    for place, cause in ignored:
        assert cause in causes, f"{place} rests on {cause}, which leads to no command"
    return applied


def _check_chain(place: Place, causes: dict[Place, Place | None], checked: set[Place]) -> None:
    """Follows the causes of an event to a command, which has none."""
    chain: dict[Place, None] = {}
    at: Place | None = place
    while at is not None and at not in checked:
        assert at in causes, f"{list(chain)} rests on {at}, which is not there"
        assert at not in chain, f"{place} rests on itself"
        chain[at] = None
        at = causes[at]
    checked.update(chain)
