"""A stranger with a plain Kafka producer writes forged records while searches run on an open stack.

Of each record is checked what the fold and `verify-log` make of it; afterwards the search that nothing was to
change has ended as it should, no service has restarted, and the documented table says the same.
"""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from tests.e2e.forged_records import EVENTS, HONEST, VICTIM, ForgedRecord, RunningTask, Seen
from tests.e2e.forgeries import FORGERIES, Forgery, table
from tests.e2e.harness import UserFolder
from tests.polling import poll_until
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.fleet import WorkerJoined
from trackside.contracts.tasks import MetricReported, TaskAssigned
from trackside.contracts.topics import Topics, partition_of
from trackside.domain.outcome import Outcome
from trackside.domain.streams import Streams
from trackside.embedded.stack import load
from trackside.eventlog.decode import decode
from trackside.eventlog.kafka import KafkaLog
from trackside.eventlog.log import Entry

pytestmark = pytest.mark.timeout(600)

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
DOCUMENTED = Path(__file__).parents[2] / "docs" / "security.md"
Place = tuple[str, int, int]


@dataclass(frozen=True)
class Attack:
    """What became of the forged records: their places, the outcomes of the fold, findings by place."""

    places: list[Place]
    outcomes: dict[Place, Outcome]
    findings: dict[Place, set[str]]
    restarts: set[int]
    honest: dict[str, Any]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, leash: Path) -> Iterator[UserFolder]:
    folder = UserFolder(tmp_path_factory.mktemp("forged"))
    (folder.path / "mine.py").write_text(TASKS)
    (folder.path / "catalogue.yaml").write_text(CATALOGUE)
    (folder.path / f"{HONEST}.yaml").write_text(SPEC.replace("MOST", "4"))
    (folder.path / f"{VICTIM}.yaml").write_text(SPEC.replace("MOST", "2"))
    folder.run_ok("up", "--leash", str(leash))
    yield folder
    folder.run_ok("down")


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
        return len(reporting) == 2

    await poll_until(all_run)
    [joined] = [record for each in await entries_of(log, TOPICS.fleet.name) if (record := decode(each))]
    assert isinstance(joined.message, WorkerJoined)
    device = TOPICS.device(joined.message.worker_id, joined.message.devices[0].device_id).name
    wrong = (partition_of(HONEST, TOPICS.event_partitions) + 1) % TOPICS.event_partitions
    return Seen(tasks, old[0], device, wrong)


async def send(producer: AIOKafkaProducer, forged: ForgedRecord) -> Place:
    """Writes a record as it is; returns its place."""
    partition = forged.partition
    if partition is None:
        count = len(await producer.partitions_for(forged.topic))
        partition = partition_of(forged.stream, count)
    sent = await producer.send_and_wait(
        forged.topic, forged.value, forged.stream.encode(), partition=partition, headers=forged.headers
    )
    return sent.topic, sent.partition, sent.offset


def restarts(home: UserFolder) -> set[int]:
    """Returns how often processes of the stack were restarted."""
    status = json.loads((home.path / ".trackside" / "stack.json").read_text())
    return {each["restarts"] for each in status["processes"].values()}


@pytest.fixture(scope="module")
def attack(home: UserFolder) -> Attack:
    """Writes all forged records while two searches run, then lets them end."""
    return asyncio.run(attacked(home))


async def attacked(home: UserFolder) -> Attack:
    """Writes the records, and reads what became of them."""
    bootstrap = load(home.path / ".trackside").bootstrap_servers
    for name in (HONEST, VICTIM):
        home.run_ok("submit", f"{name}.yaml", "--id", name)
    async with KafkaLog(bootstrap, client_id="forged") as log:
        seen = await seen_by_a_stranger(log)
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
        await producer.start()
        try:
            places = [await send(producer, each.forge(seen)) for each in FORGERIES]
        finally:
            await producer.stop()
        (home.path / "released").touch()
        honest = home.json_lines("watch", HONEST)[-1]
        home.run("watch", VICTIM)
        streams, outcomes = Streams(AGGREGATES, partitions=TOPICS.event_partitions), dict[Place, Outcome]()
        for entry in await entries_of(log, EVENTS):
            if (record := decode(entry)) is not None:
                outcomes[entry.topic, entry.partition, entry.offset] = streams.fold(record)[1]
    report = json.loads(home.run("verify-log", "--json").stdout)
    findings: dict[Place, set[str]] = {}
    for each in report["findings"]:
        place = (each["topic"], each["partition"], each["offset"])
        findings.setdefault(place, set()).add(each["invariant"])
    return Attack(places, outcomes, findings, restarts(home), honest)


@pytest.mark.parametrize("number", range(len(FORGERIES)), ids=[each.what[:70] for each in FORGERIES])
def test_a_forged_record_has_no_effect_or_is_found(number: int, attack: Attack) -> None:
    forgery: Forgery = FORGERIES[number]
    place = attack.places[number]
    applied = attack.outcomes.get(place) is Outcome.APPLIED
    assert applied == forgery.effect
    assert attack.findings.get(place, set()) >= ({forgery.found} if forgery.found else set())
    assert bool(attack.findings.get(place)) == bool(forgery.found)


def test_the_search_that_was_not_to_be_changed_ends_as_it_should(attack: Attack) -> None:
    assert (attack.honest["status"], attack.honest["trials"]) == ("DONE", 4)


def test_no_service_restarts(attack: Attack) -> None:
    assert attack.restarts == {0}


def test_what_is_found_elsewhere_is_in_streams_that_were_changed(attack: Attack, home: UserFolder) -> None:
    found = home.run("verify-log", HONEST, "--json")
    others = [each for each in json.loads(found.stdout)["findings"] if each["topic"] == EVENTS]
    assert (others, home.run("verify-log").returncode) == ([], 1)


def test_the_documented_table_is_that_of_the_test() -> None:
    documented = DOCUMENTED.read_text("utf-8")
    assert "\n".join(table()) in documented
