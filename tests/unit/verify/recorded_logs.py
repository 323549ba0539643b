"""Logs that the shipped services have decided, one for each aggregate, recorded in a simulation."""

import re
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import pytest

from tests.unit.verify import advisors, scripted
from tests.unit.verify.scripted import TOPICS
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import Topic, partition_of
from trackside.contracts.fleet.fleet import WATCH_DATASET, WorkerJoined, WorkerLeft, WorkerLost
from trackside.domain.folding.streams import dump
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import Stream
from trackside.eventlog.errors import PreflightError
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Entry, TopicPartition
from trackside.simulation.config import SimulationConfig, without_faults
from trackside.simulation.run import SETTLE_S, Simulation
from trackside.simulation.scenarios.pipeline_scenario import PipelineScenario
from trackside.simulation.scenarios.rounds_scenario import RoundsScenario
from trackside.simulation.scenarios.running_scenarios import (
    AskingScenario,
    ServicesScenario,
    TrainingScenario,
)
from trackside.simulation.scenarios.scenarios import BatchScenario, SearchScenario, StreamScenario
from trackside.simulation.services import SimulatedAdvisor
from trackside.simulation.tasks.incremental_tasks import TASKS, SimulatedWatcher
from trackside.verify.log import VerificationReport, verify_topics
from trackside.verify.verifier import Fold

_NUMBERS = re.compile(rb"(?<=[:\[,@])-?[0-9]+(?=[],}\"])")
ResultT = TypeVar("ResultT")
EVENTS = TOPICS.events.name
MOST_EVENTS = 400
"""How many events a recorded log has at most."""


def at_once(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Returns the result of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as done:
        result: ResultT = done.value
        return result
    raise AssertionError("it waits for something")


@dataclass
class RecordedLog:
    """A log that nobody appends to; each entry is decoded once, also if several logs have it."""

    entries: Mapping[TopicPartition, Sequence[Entry]]
    ended: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The ends of partitions that do not end with their last entry."""
    known: dict[int, tuple[Entry, Record | None]] = field(default_factory=dict)

    def decoded(self, entry: Entry) -> Record | None:
        _, record = self.known.get(id(entry)) or self.known.setdefault(id(entry), (entry, decode(entry)))
        if record is not None:
            record.trust, record.distrust = None, ""  # which are of the verification before this one
        return record

    def changed(self, place: TopicPartition, entries: Sequence[Entry]) -> "RecordedLog":
        return RecordedLog({**self.entries, place: entries}, known=dict(self.known))

    def events(self) -> Iterator[Entry]:
        """Yields the events, partition by partition."""
        for (topic, _), entries in sorted(self.entries.items()):
            if topic == EVENTS:
                yield from entries

    def reader(self, starts: Mapping[TopicPartition, int], gather_s: float = 0.0) -> "RecordedReader":
        return RecordedReader(self, dict(starts))

    async def ends(self, topic: str) -> dict[int, int]:
        places = [place for place in self.entries if place[0] == topic]
        return {place[1]: self._end(place) for place in places}

    async def ends_of(self, topics: Collection[str]) -> dict[str, dict[int, int]]:
        return {topic: await self.ends(topic) for topic in topics}

    async def beginnings(self, topic: str) -> dict[int, int]:
        return {partition: 0 for name, partition in self.entries if name == topic}

    async def preflight(self, topics: Sequence[Topic]) -> None:
        names = {name for name, _ in self.entries}
        if missing := [topic.name for topic in topics if topic.name not in names]:
            raise PreflightError(f"topic {missing[0]} does not exist")

    def _end(self, place: TopicPartition) -> int:
        entries = self.entries[place]
        return self.ended.get(place, entries[-1].offset + 1 if entries else 0)


@dataclass
class RecordedReader:
    """Reads a partition after the other."""

    log: RecordedLog
    starts: dict[TopicPartition, int]

    async def read(self, max_wait_s: float, max_records: int = 10_000) -> list[Entry]:
        place = next(iter(self.starts))
        first = self.starts.pop(place)
        return [entry for entry in self.log.entries[place] if entry.offset >= first]

    async def close(self) -> None: ...


@dataclass
class Verified:
    """What a verification has found in a log, and what became of each event, by its partition and offset."""

    report: VerificationReport | None
    """None if it fails: no service can fold the log."""
    outcomes: dict[tuple[int, int], Outcome]
    streams: dict[str, Stream]

    def states(self) -> dict[str, bytes]:
        """Returns what the streams have become, without numbers: those of offsets and times differ anyway."""
        return {name: _NUMBERS.sub(b"0", dump(stream)) for name, stream in self.streams.items()}

    @property
    def found(self) -> list[str]:
        return ["no fold"] if self.report is None else [str(each) for each in self.report.findings]


def verified(log: RecordedLog, fold: Fold | None = None) -> Verified:
    """Verifies a log as `trackside verify-log --complete` does."""
    outcomes: dict[tuple[int, int], Outcome] = {}
    streams: dict[str, Stream] = {}

    def note(stream: Stream, outcome: Outcome, record: Record, value: bytes) -> None:
        outcomes[record.partition, record.offset] = outcome
        streams[stream.stream_id] = stream

    work = verify_topics(log, TOPICS, fold=fold, on_record=note, decoded=log.decoded)  # type: ignore[arg-type]
    try:
        report = at_once(work).complete()
    except (LookupError, TypeError, ValueError):
        report = None
    return Verified(report, outcomes, streams)


def stream_partition(stream: str) -> int:
    """Returns the partition of a stream in a recorded log."""
    return partition_of(stream, TOPICS.event_partitions)


def recorded(
    scenario: type[StreamScenario],
    seed: int,
    tasks: int = 8,
    *,
    advisor: type[SimulatedAdvisor] = SimulatedAdvisor,
    watcher: type[SimulatedWatcher] = SimulatedWatcher,
    faults: bool = False,
) -> RecordedLog:
    """Records the log of a scenario."""
    config = SimulationConfig(trials=tasks, concurrency=3, scenario=scenario)
    simulation = Simulation(seed, config if faults else without_faults(config))
    simulation.scenario.log = simulation.log  # type: ignore[attr-defined]  # scripts write there
    with simulation.loop, pytest.MonkeyPatch.context() as patch:
        patch.setattr("trackside.simulation.services.SimulatedAdvisor", advisor)
        patch.setitem(TASKS, WATCH_DATASET, watcher)
        assert simulation.run_to_end()
        simulation._end_faults()
        simulation.loop.run_until(simulation.loop.time() + SETTLE_S)
    entries = {place: list(found) for place, found in simulation.log.entries.items()}
    del entries[TOPICS.heartbeats.name, 0]
    simulation.forget()
    log = RecordedLog(entries)
    leave(log, entries)
    assert 0 < sum(1 for _ in log.events()) <= MOST_EVENTS
    return log


def leave(log: RecordedLog, entries: dict[TopicPartition, list[Entry]]) -> None:
    """Lets all workers leave: after that none of their numbers may be missing."""
    numbers: dict[str, int] = {}
    here: dict[str, str] = {}
    fleet = entries[TOPICS.fleet.name, 0]
    for entry in [*fleet, *log.events()]:
        record = log.decoded(entry)
        message: Any = None if record is None else record.message
        if isinstance(message, WorkerJoined):
            here[message.worker_id] = message.incarnation
        elif isinstance(message, WorkerLost):
            here.pop(message.worker_id, None)
        name = getattr(message, "incarnation", "")
        if record is not None and record.envelope.role == "worker":
            numbers[name] = max(numbers.get(name, 0), record.envelope.sequence)
    for worker, incarnation in sorted(here.items()):
        left = WorkerLeft(worker_id=worker, incarnation=incarnation)
        sent = RecordWriter("worker", worker).single(worker, left, sequence=numbers[incarnation] + 1)
        time_ms = fleet[-1].append_time_ms
        place = (TOPICS.fleet.name, 0)
        fleet.append(Entry(*place, len(fleet), time_ms, sent.key, sent.value, list(sent.headers)))


OF_AGGREGATES: Mapping[str, Callable[[], RecordedLog]] = {
    "search": partial(recorded, SearchScenario, 1),
    "batch": partial(recorded, BatchScenario, 1),
    "training": partial(recorded, TrainingScenario, 1, 6),
    "asking": partial(recorded, AskingScenario, 1),
    "promoting": partial(recorded, advisors.PromotingScenario, 1, advisor=advisors.ShippedTuner),
    "services": partial(recorded, ServicesScenario, 2),
    "run": partial(recorded, PipelineScenario, 1),
    "rounds": partial(recorded, RoundsScenario, 1),
    "pipeline": partial(recorded, scripted.PipelineScript, 1),
    "summary": partial(recorded, scripted.SummaryScript, 1),
    "models": partial(recorded, scripted.ModelScript, 1),
}
"""What records the log of each aggregate."""
FURTHER: Mapping[str, Callable[[], RecordedLog]] = {
    "limits": partial(recorded, scripted.LimitsScript, 1),
    "changed search": partial(recorded, scripted.SearchScript, 1),
    "timed search": partial(recorded, scripted.TimedScript, 1),
    "troubled search": partial(recorded, advisors.TroubledScenario, 1, advisor=advisors.TroubledAdvisor),
    "failing search": partial(recorded, advisors.TroubledScenario, 2, advisor=advisors.FailingAdvisor),
    "stopped dataset": partial(recorded, scripted.DatasetScript, 1, watcher=scripted.TroubledWatcher),
    "cache": partial(recorded, scripted.CachedScript, 1),
    "adoption": partial(recorded, ServicesScenario, 22, 5, faults=True),
    "refusal": partial(recorded, BatchScenario, 1, faults=True),
    "preemption": partial(recorded, BatchScenario, 10, faults=True),
    "paused run": partial(recorded, PipelineScenario, 2, 5, faults=True),
    "stopped steps": partial(recorded, PipelineScenario, 9, 5),
    "approvals": partial(recorded, RoundsScenario, 13, 5),
    "removal": partial(recorded, RoundsScenario, 14),
    "failed update": partial(recorded, RoundsScenario, 21, 5),
    "late update": partial(recorded, RoundsScenario, 1, 5),
    "hard examples": partial(recorded, scripted.ReportedRounds, 8, 5),
    "rollback": partial(recorded, RoundsScenario, 18, faults=True),
}
"""What records logs with events of other types."""
LOGS = {**OF_AGGREGATES, **FURTHER}
