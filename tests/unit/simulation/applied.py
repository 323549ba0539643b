"""Runs a simulation to its end, and counts the events of its log that were applied."""

from collections import Counter
from itertools import chain

from tests.causes import check_causes
from trackside.contracts.message import Event
from trackside.eventlog.decode import decode
from trackside.simulation.run import Simulation


def applied_events(simulation: Simulation) -> Counter[type[Event]]:
    """Returns the applied events by type; fails for a violation, and for an event without a cause."""
    try:
        result = simulation.run()
        assert result.violations == [], result.rerun_command
        events = simulation.topics.events
        places = [(events.name, partition) for partition in range(events.partitions)]
        entries = chain.from_iterable(simulation.log.entries[place] for place in places)
        return check_causes(record for entry in entries if (record := decode(entry)) is not None)
    finally:
        simulation.forget()
