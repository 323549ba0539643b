"""The chains of causes in a log: every event rests on another, and at the beginning is a command."""

from collections import Counter
from collections.abc import Iterable

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.commands import CommandReceived
from trackside.contracts.message import Event, Record
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import parse_cause
from trackside.domain.streams import Streams


def check_causes(records: Iterable[Record]) -> Counter[type[Event]]:
    """Follows the causes of all events that were applied to their beginning; returns how many of each type.

    An event that was not applied has a cause too.
    """
    streams, commands = Streams(AGGREGATES), set[tuple[str, int]]()
    applied: Counter[type[Event]] = Counter()
    for record in records:
        event, place = record.message, (record.envelope.stream, record.offset)
        assert isinstance(event, Event)
        outcome = streams.fold(record)[1]
        cause = parse_cause(record.envelope.causation_id)
        if isinstance(event, CommandReceived):
            assert cause is None, f"{place}: a command rests on its source"
            commands.add(place)
        else:
            assert cause is not None, f"{place}: {event!r} by {record.envelope.role} names no cause"
            assert cause in commands, f"{place}: {event!r} rests on {cause}, which leads to no command"
            if outcome is Outcome.APPLIED:
                commands.add(place)
        applied[type(event)] += outcome is Outcome.APPLIED
    return applied
