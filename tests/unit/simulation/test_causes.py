"""In a search with retries, an assessor and a pause, every chain of causes begins with a command."""

import logging
from collections import Counter
from collections.abc import Iterator
from itertools import chain

import pytest
import structlog

from tests.causes import check_causes
from trackside.aggregates.search.messages import PauseSearch, ResumeSearch, SearchPaused, SearchResumed
from trackside.contracts.message import Event, Message
from trackside.contracts.tasks import AttemptEnded, MetricReported, TaskHeld, TaskReleased, TaskStopRequested
from trackside.eventlog.decode import decode
from trackside.eventlog.record_writer import RecordWriter
from trackside.simulation.config import SimulationConfig
from trackside.simulation.run import Simulation
from trackside.simulation.scenarios import STREAM

SEEDS = range(1, 9, 2)  # with an assessor
WORTH_SEEING = (SearchPaused, SearchResumed, TaskHeld, TaskReleased, MetricReported, TaskStopRequested)


@pytest.fixture(autouse=True)
def _hushed() -> Iterator[None]:
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.configure(**before)


class PausedSearch(Simulation):
    """A simulated search that is paused with `return` while its trials run, and resumed later."""

    def _publish(self) -> None:
        super()._publish()
        self._after(1.0, self._send, "pause", PauseSearch(running="return"))
        self._after(2.0, self._send, "resume", ResumeSearch())

    def _send(self, name: str, command: Message) -> None:
        record = RecordWriter("publisher", "simulation").single(STREAM, command, message_id=name)
        self.log._land((self.topics.commands.name, 1), [record], None)


def applied_events(seed: int) -> Counter[type[Event]]:
    simulation = PausedSearch(seed, SimulationConfig())
    try:
        result = simulation.run()
        assert result.violations == [], result.rerun_command
        events = simulation.topics.events
        places = [(events.name, partition) for partition in range(events.partitions)]
        entries = chain.from_iterable(simulation.log.entries[place] for place in places)
        return check_causes(record for entry in entries if (record := decode(entry)) is not None)
    finally:
        simulation.forget()


def test_each_event_has_a_cause_and_each_chain_begins_with_a_command() -> None:
    applied: Counter[type[Event]] = sum((applied_events(seed) for seed in SEEDS), Counter())
    assert all(applied[kind] > 0 for kind in WORTH_SEEING), applied
    assert applied[AttemptEnded] > len(SEEDS) * SimulationConfig().trials, "some were retried"
