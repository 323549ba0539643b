"""In a search with retries, an assessor and a pause, every chain of causes begins with a command."""

from collections import Counter

import pytest

from tests.unit.simulation.applied import applied_events
from trackside.aggregates.search.messages import PauseSearch, ResumeSearch, SearchPaused, SearchResumed
from trackside.contracts.message import Event, Message
from trackside.contracts.tasks import AttemptEnded, MetricReported, TaskHeld, TaskReleased, TaskStopRequested
from trackside.eventlog.record_writer import RecordWriter
from trackside.simulation.config import SimulationConfig
from trackside.simulation.run import Simulation
from trackside.simulation.scenarios import STREAM

pytestmark = pytest.mark.usefixtures("quiet_services")

SEEDS = range(1, 9, 2)  # with an assessor
WORTH_SEEING = (SearchPaused, SearchResumed, TaskHeld, TaskReleased, MetricReported, TaskStopRequested)


class PausedSearch(Simulation):
    """A simulated search that is paused with `return` while its trials run, and resumed later."""

    def _publish(self) -> None:
        super()._publish()
        self._after(1.0, self._send, "pause", PauseSearch(running="return"))
        self._after(2.0, self._send, "resume", ResumeSearch())

    def _send(self, name: str, command: Message) -> None:
        record = RecordWriter("publisher", "simulation").single(STREAM, command, message_id=name)
        self.log._land((self.topics.commands.name, 1), [record], None)


def test_each_event_has_a_cause_and_each_chain_begins_with_a_command() -> None:
    applied: Counter[type[Event]] = sum(
        (applied_events(PausedSearch(seed, SimulationConfig())) for seed in SEEDS), Counter()
    )
    assert all(applied[kind] > 0 for kind in WORTH_SEEING), applied
    assert applied[AttemptEnded] > len(SEEDS) * SimulationConfig().trials, "some were retried"
