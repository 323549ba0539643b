"""An attack on a stack while two searches run: who writes the forged records, and what becomes of each."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.forged_records import EVENTS, FLEET, ForgedRecord, RunningTask, Seen
from tests.e2e.forgeries import FORGERIES
from tests.e2e.intruders import Intruder, Place, raw_producer
from tests.e2e.shared_stack import StackFolder
from tests.e2e.shared_tasks import search_spec
from tests.polling import poll_until
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.fleet.fleet import WorkerJoined
from trackside.contracts.tasks.tasks import MetricReported, TaskAssigned
from trackside.domain.fleet.fleet import Fleet, evolve
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.log import Entry
from trackside.eventlog.settings.kafka_settings import KafkaSettings, kafka_settings

TOPICS = Topics()
TRIALS = {"honest": 4, "victim": 2}


@dataclass
class Judgement:
    """Folds what the topics have, as every service does.

    `outcomes` are those of the fold, `distrust` why signatures are against a record, both by place;
    `attempts` has the highest one of a task in each stream, and `joins` counts those of the worker.
    """

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


@dataclass(frozen=True)
class Attack:
    """What became of the forged records that were written on a stack.

    `restarts` has how each service ended that was restarted meanwhile. `unchanged` has the searches that must
    not change, each with its number of trials. `places` has where the records of each intruder are, None
    where the broker denied one, `findings` those of `verify-log` by place, and `ends` the last line about
    each search.
    """

    home: StackFolder
    restarts: Mapping[str, str]
    unchanged: Mapping[str, int]
    places: Mapping[str, Sequence[Place | None]]
    folded: Judgement
    findings: dict[Place, set[str]]
    ends: dict[str, Any]

    @property
    def secure(self) -> bool:
        """Whether the stack has users."""
        return bool(self.home.stack.status.secure)

    def written(self, number: int) -> dict[str, Place]:
        """Returns where a forged record is, by the intruders whom the broker let write it."""
        found = {name: places[number] for name, places in self.places.items()}
        return {name: place for name, place in found.items() if place is not None}


async def attack(home: StackFolder, intruders: Mapping[Intruder, KafkaSettings]) -> Attack:
    """Makes each intruder write all forged records while two searches run, and looks at how these end."""
    searches = {
        home.submit(name, search_spec("gated", most, at_once=1)): most for name, most in TRIALS.items()
    }
    honest, _ = searches
    before = home.stack.status.processes
    judgement, places = Judgement(), dict[str, list[Place | None]]()
    async with KafkaLog(kafka_settings(home.stack.kafka("viewer")), client_id="forged") as log:
        seen = await seen_by_a_stranger(log, *searches)
        for intruder, kafka in intruders.items():
            forged = [each.forge(seen) for each in FORGERIES]
            async with raw_producer(kafka) as producer:
                places[intruder.name] = [
                    await producer.send(each if each is seen.old else intruder.disguised(each))
                    for each in forged
                ]
        home.release()
        watched = {name: home.run("watch", name, "--json").stdout for name in searches}
        for topic in (EVENTS, FLEET):
            for entry in await entries_of(log, topic):
                judgement.take(entry)
    findings: dict[Place, set[str]] = {}
    for each in json.loads(home.run("verify-log", "--json").stdout)["findings"]:
        findings.setdefault((each["topic"], each["partition"], each["offset"]), set()).add(each["invariant"])
    after = home.stack.status.processes
    return Attack(
        home,
        {name: each.last_end for name, each in after.items() if each.restarts != before[name].restarts},
        searches if home.stack.status.secure else {honest: searches[honest]},
        places,
        judgement,
        findings,
        {name: json.loads(said.splitlines()[-1]) for name, said in watched.items()},
    )


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


async def seen_by_a_stranger(log: KafkaLog, honest: str, victim: str) -> Seen:
    """Waits until the tasks of both searches run; returns what their topics say then."""
    reporting: set[str] = set()
    tasks: dict[str, RunningTask] = {}
    old: list[ForgedRecord] = []

    async def all_run() -> bool:
        for entry in await entries_of(log, EVENTS):
            record = decode(entry)
            if record is None or (stream := record.envelope.stream) not in (honest, victim):
                continue
            message = record.message
            if isinstance(message, MetricReported):
                reporting.add(stream)
            elif isinstance(message, TaskAssigned):
                tasks[stream] = RunningTask(message.task_id, message.incarnation, entry.offset)
                if stream == honest:
                    headers = [(name, octets or b"") for name, octets in entry.headers]
                    old.append(ForgedRecord(EVENTS, honest, entry.value, headers))
        return len(reporting) == len(TRIALS)

    await poll_until(all_run)
    fleet = [record.message for each in await entries_of(log, FLEET) if (record := decode(each)) is not None]
    [joined] = [each for each in fleet if isinstance(each, WorkerJoined) and each.worker_id == "worker"]
    device = TOPICS.device(joined.worker_id, joined.devices[0].device_id).name
    wrong = (partition_of(honest, TOPICS.event_partitions) + 1) % TOPICS.event_partitions
    return Seen(tasks[honest], tasks[victim], old[0], device, wrong)
