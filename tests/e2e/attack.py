"""An attack on a stack while two searches run: who writes the forged records, and what becomes of each."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.forged_records import EVENTS, FLEET, HONEST, VICTIM, ForgedRecord, RunningTask, Seen
from tests.e2e.forgeries import FORGERIES
from tests.e2e.harness import UserFolder
from tests.e2e.intruders import Intruder, Place, raw_producer
from tests.polling import poll_until
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.fleet import WorkerJoined
from trackside.contracts.message import Record
from trackside.contracts.tasks import MetricReported, TaskAssigned
from trackside.contracts.topics import Topics, partition_of
from trackside.domain.fleet import Fleet, evolve
from trackside.domain.outcome import Outcome
from trackside.domain.streams import Streams
from trackside.embedded.stack import load
from trackside.eventlog.decode import decode
from trackside.eventlog.kafka import KafkaLog
from trackside.eventlog.kafka_settings import KafkaSettings, kafka_settings
from trackside.eventlog.log import Entry

TOPICS = Topics()
TASKS = """
from pathlib import Path
from threading import Event

from trackside.sdk import Task, trial


class Gated(Task):
    def train(self, device):
        trial.report(0.1, step=0)
        while not (Path(__file__).parent / "released").exists():
            Event().wait(0.05)
        return {"value": trial.parameters()["x"]}
"""
CATALOGUE = "tasks:\n  gated: {entry: mine:Gated, path: .}\n"
SPEC = """
kind: search
task_type: gated
max_trials: MOST
concurrency: 1
space:
  x: {type: uniform, low: 0, high: 1}
"""
TRIALS = {HONEST: 4, VICTIM: 2}


@dataclass(frozen=True)
class Attack:
    """What became of the forged records.

    `places` has where those of each intruder are, None where the broker denied one; `outcomes` are those of
    the fold, `distrust` why signatures are against a record, `findings` those of `verify-log`, all by place;
    `ends` has the last line about each search, `attempts` the highest one of a task in each stream, and
    `joins` counts how often the worker has joined.
    """

    places: Mapping[str, Sequence[Place | None]]
    outcomes: dict[Place, Outcome]
    distrust: dict[Place, str]
    findings: dict[Place, set[str]]
    restarts: set[int]
    ends: dict[str, Any]
    attempts: dict[str, int]
    joins: int

    def written(self, number: int) -> dict[str, Place]:
        """Returns where a forged record is, by the intruders whom the broker let write it."""
        found = {name: places[number] for name, places in self.places.items()}
        return {name: place for name, place in found.items() if place is not None}


@dataclass
class Judgement:
    """Folds what the topics have, as every service does."""

    outcomes: dict[Place, Outcome] = field(default_factory=dict)
    distrust: dict[Place, str] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    joins: int = 0
    _streams: Streams = field(default_factory=lambda: Streams(AGGREGATES, partitions=TOPICS.event_partitions))
    _fleet: Fleet = field(default_factory=Fleet)

    def take(self, entry: Entry) -> None:
        """Folds one record of the events or of the fleet."""
        if (record := decode(entry)) is None:
            return
        place = (entry.topic, entry.partition, entry.offset)
        if entry.topic == FLEET:
            self.outcomes[place] = evolve(self._fleet, record)
        else:
            self.outcomes[place] = self._streams.fold(record)[1]
        if record.distrust:
            self.distrust[place] = record.distrust
        if self.outcomes[place] is Outcome.APPLIED:
            self._count(record)

    def _count(self, record: Record) -> None:
        message, stream = record.message, record.envelope.stream
        if isinstance(message, TaskAssigned):
            self.attempts[stream] = max(message.attempt, self.attempts.get(stream, 0))
        elif isinstance(message, WorkerJoined):
            self.joins += message.worker_id == "worker"


def prepare(home: UserFolder) -> None:
    """Writes the files of the two searches."""
    (home.path / "mine.py").write_text(TASKS)
    (home.path / "catalogue.yaml").write_text(CATALOGUE)
    for name, trials in TRIALS.items():
        (home.path / f"{name}.yaml").write_text(SPEC.replace("MOST", str(trials)))


async def attack(home: UserFolder, intruders: Mapping[Intruder, KafkaSettings]) -> Attack:
    """Has each intruder write all forged records while two searches run, lets these end, and looks at it."""
    for name in TRIALS:
        home.run_ok("submit", f"{name}.yaml", "--id", name)
    judgement, places = Judgement(), dict[str, list[Place | None]]()
    async with KafkaLog(reader_of(home), client_id="forged") as log:
        seen = await seen_by_a_stranger(log)
        for intruder, kafka in intruders.items():
            forged = [each.forge(seen) for each in FORGERIES]
            async with raw_producer(kafka) as producer:
                places[intruder.name] = [
                    await producer.send(each if each is seen.old else intruder.disguised(each))
                    for each in forged
                ]
        (home.path / "released").touch()
        ends = {name: _end_of(home, name) for name in TRIALS}
        for topic in (EVENTS, FLEET):
            for entry in await entries_of(log, topic):
                judgement.take(entry)
    findings: dict[Place, set[str]] = {}
    for each in json.loads(home.run("verify-log", "--json").stdout)["findings"]:
        findings.setdefault((each["topic"], each["partition"], each["offset"]), set()).add(each["invariant"])
    return Attack(
        places,
        judgement.outcomes,
        judgement.distrust,
        findings,
        restarts(home),
        ends,
        judgement.attempts,
        judgement.joins,
    )


def _end_of(home: UserFolder, search: str) -> Any:
    return json.loads(home.run("watch", search, "--json").stdout.splitlines()[-1])


def reader_of(home: UserFolder) -> KafkaSettings:
    """Returns how to read the topics of the stack in a folder."""
    return kafka_settings(load(home.path / ".trackside").kafka("viewer"))


async def entries_of(log: KafkaLog, topic: str) -> list[Entry]:
    """Reads a topic to its end."""
    ends = {place: end for place, end in (await log.ends(topic)).items() if end}
    reader, read = log.reader({(topic, partition): 0 for partition in ends}), list[Entry]()
    try:
        while ends:
            for entry in await reader.read(1.0):
                read.append(entry)
                if entry.offset + 1 >= ends.get(entry.partition, entry.offset + 2):
                    del ends[entry.partition]
    finally:
        await reader.close()
    return read


async def seen_by_a_stranger(log: KafkaLog) -> Seen:
    """Waits until the tasks of both searches run; returns what their topics say then."""
    reporting: set[str] = set()
    tasks: dict[str, RunningTask] = {}
    old: list[ForgedRecord] = []

    async def all_run() -> bool:
        for entry in await entries_of(log, EVENTS):
            record = decode(entry)
            message = None if record is None else record.message
            if isinstance(message, MetricReported):
                reporting.add(message.task_id)
            elif isinstance(message, TaskAssigned) and record is not None:
                tasks[message.task_id] = RunningTask(message.task_id, message.incarnation, entry.offset)
                if record.envelope.stream == HONEST:
                    headers = [(name, octets or b"") for name, octets in entry.headers]
                    old.append(ForgedRecord(EVENTS, HONEST, entry.value, headers))
        return len(reporting) == len(TRIALS)

    await poll_until(all_run)
    fleet = [record for each in await entries_of(log, FLEET) if (record := decode(each)) is not None]
    [joined] = [record.message for record in fleet if isinstance(record.message, WorkerJoined)]
    device = TOPICS.device(joined.worker_id, joined.devices[0].device_id).name
    wrong = (partition_of(HONEST, TOPICS.event_partitions) + 1) % TOPICS.event_partitions
    return Seen(tasks, old[0], device, wrong)


def restarts(home: UserFolder) -> set[int]:
    """Returns how often processes of the stack were restarted."""
    status = json.loads((home.path / ".trackside" / "stack.json").read_text())
    return {each["restarts"] for each in status["processes"].values()}
