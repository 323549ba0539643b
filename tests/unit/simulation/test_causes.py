"""Every chain of causes begins with a command, also in batches with searches as children."""

from collections import Counter
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest

from tests.causes import check_causes
from trackside.aggregates.batch.messages import BatchEnded, BatchStatus, StopTasks, SubmitTasks
from trackside.aggregates.batch.state import batch_of
from trackside.aggregates.search.messages import (
    PauseSearch,
    ResumeSearch,
    SearchEnded,
    SearchPaused,
    SearchResumed,
)
from trackside.contracts.envelope.message import Event, Message, Record
from trackside.contracts.streams.children import ChildEnded, ChildRequested, ChildStopRequested
from trackside.contracts.tasks.tasks import (
    AttemptEnded,
    MetricReported,
    TaskHeld,
    TaskReleased,
    TaskStopRequested,
)
from trackside.domain.streams.stream import Stream
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.simulation.config import SimulationConfig
from trackside.simulation.host.worker_state import TASK_TYPE
from trackside.simulation.run import Simulation
from trackside.simulation.scenarios.scenarios import STREAM, StreamScenario

pytestmark = [pytest.mark.usefixtures("quiet_services"), pytest.mark.thorough]

SEEDS = range(1, 9, 2)  # with an assessor
WORTH_SEEING = (SearchPaused, SearchResumed, TaskHeld, TaskReleased, MetricReported, TaskStopRequested)


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


def publish(simulation: Simulation, command: Message, command_id: str) -> None:
    record = RecordWriter("publisher", "simulation").single(STREAM, command, message_id=command_id)
    simulation.log._land((simulation.topics.commands.name, 1), [record], None)


class PausedSearch(Simulation):
    """A simulated search that is paused with `return` while its trials run, and resumed later."""

    def _publish(self) -> None:
        super()._publish()
        self._after(1.0, publish, self, PauseSearch(running="return"), "pause")
        self._after(2.0, publish, self, ResumeSearch(), "resume")


def test_each_event_has_a_cause_and_each_chain_begins_with_a_command() -> None:
    applied: Counter[type[Event]] = sum(
        (applied_events(PausedSearch(seed, SimulationConfig())) for seed in SEEDS), Counter()
    )
    assert all(applied[kind] > 0 for kind in WORTH_SEEING), applied
    assert applied[AttemptEnded] > len(SEEDS) * SimulationConfig().trials, "some were retried"


TASK = {"task_type": TASK_TYPE, "retry": {"lost": {"times": 100}}}
SEARCH: dict[str, Any] = {
    "task_type": TASK_TYPE,
    "space": {"x": {"type": "uniform", "low": 0.0, "high": 1.0}},
    "tuner": {"name": "random"},
    "concurrency": 2,
    "retry": {"lost": {"times": 100}},
}


class BatchOfSearches(StreamScenario):
    kind = name = "batch"
    plural = "batches"
    last_trials = 2
    ends_as = BatchStatus.DONE

    def __init__(self, seed: int, tasks: int, concurrency: int) -> None:
        super().__init__(seed, tasks, concurrency)
        self._ends: dict[str, str] = {}
        self._child_ends: dict[str, str] = {}

    def command(self) -> SubmitTasks:
        searches = [
            {"name": name, "kind": "search", "spec": {**SEARCH, "max_trials": trials}}
            for name, trials in (("a", 3), ("b", self.last_trials))
        ]
        groups = [{"tasks": [TASK], "children": searches}, {"tasks": [TASK]}]
        return SubmitTasks.model_validate({"groups": groups})

    def take(self, record: Record, stream: Stream) -> None:
        event = record.message
        if isinstance(event, SearchEnded):
            self._ends[record.envelope.stream] = event.status.value
        elif isinstance(event, ChildEnded):
            self._child_ends[event.child_id] = event.status

    def violations(self, stream: Stream) -> list[str]:
        batch = batch_of(stream)
        if batch is None or batch.status is not self.ends_as:
            return [f"the batch is {batch and batch.status}"]
        if self._ends != self._child_ends:
            return [f"the searches are {self._ends}, for the batch they are {self._child_ends}"]
        return []


class LongBatch(BatchOfSearches):
    last_trials = 1_000
    ends_as = BatchStatus.STOPPED


class StoppedBatch(Simulation):
    def _publish(self) -> None:
        super()._publish()
        self._after(1.5, publish, self, StopTasks(), "stop")


CONFIG = SimulationConfig(trials=8, concurrency=3, scenario=BatchOfSearches)


@pytest.mark.parametrize("seed", range(1, 13))
def test_each_child_begins_once_and_ends_once_whoever_is_killed(seed: int) -> None:
    applied = applied_events(Simulation(seed, CONFIG))
    assert (applied[ChildRequested], applied[ChildEnded], applied[BatchEnded]) == (2, 2, 1)


def test_stopping_a_batch_stops_its_children_whoever_is_killed() -> None:
    stops = 0
    for seed in range(1, 13):
        applied = applied_events(StoppedBatch(seed, replace(CONFIG, scenario=LongBatch)))
        assert applied[ChildRequested] == applied[ChildEnded]
        stops += applied[ChildStopRequested]
    assert stops > 6
