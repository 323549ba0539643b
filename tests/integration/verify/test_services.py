"""The log of services that really ran, on a real Kafka: nothing is found; what is planted then is."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from tests.stack import Servers
from tests.unit.projections.given import SCHEDULER, WORKER
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import StartSearch
from trackside.cli.app import call
from trackside.contracts.commands import CommandRefused
from trackside.contracts.device_commands import RunTask
from trackside.contracts.fleet import Device
from trackside.contracts.tasks import AttemptEnd, AttemptEnded
from trackside.contracts.topics import Topics, partition_of
from trackside.domain import fleet
from trackside.domain.streams import Streams
from trackside.eventlog.decode import decode
from trackside.eventlog.kafka import KafkaLog
from trackside.eventlog.log import Log
from trackside.eventlog.record_writer import RecordWriter
from trackside.eventlog.service_context import ServiceContext
from trackside.scheduler.settings import SchedulerSettings
from trackside.simulation.services import MakeService, dispatcher, scheduler
from trackside.simulation.worker import SimulatedWorker
from trackside.simulation.worker_state import Workload
from trackside.verify.log import verify_topics

STREAM = "s"
TRIALS = 12
WORKERS = 2


@pytest.fixture
def topics(topic_prefix: str) -> Topics:
    """Gives topics of the test's own."""
    return Topics(prefix=topic_prefix, event_partitions=3)


def search() -> StartSearch:
    plain = {
        "task_type": "noop",
        "space": {"x": {"type": "uniform", "low": 0.0, "high": 1.0}},
        "tuner": {"name": "random"},
        "max_trials": TRIALS,
        "concurrency": 6,
    }
    return StartSearch.model_validate(plain)


def worker(log: Log, topics: Topics, name: str) -> SimulatedWorker:
    """Gives a worker with two slots whose tasks take a few ms."""
    slots = [Device(device_id=f"cpu-{slot}", kind="cpu", name="cpu", memory_bytes=2**33) for slot in range(2)]
    made = SimulatedWorker(log, topics, name, slots, Workload(seconds=(0.005, 0.03), reports=3))
    made.heartbeat_s = 0.05
    return made


@asynccontextmanager
async def services(log: Log, topics: Topics, chance: random.Random) -> AsyncIterator[None]:
    """Runs two dispatchers, two schedulers and two workers on a log."""
    settings = SchedulerSettings(lease_s=0.5, heartbeat_s=0.05, resend_s=0.1)
    held: list[Streams] = []

    def made(role: str, at: int) -> MakeService:
        return partial(ServiceContext.on, log, topics, role, str(at))

    running = [
        *(asyncio.create_task(dispatcher(made("dispatcher", at), chance, held.append)) for at in range(2)),
        *(asyncio.create_task(scheduler(made("scheduler", at), settings, held.append)) for at in range(2)),
        *(asyncio.create_task(worker(log, topics, f"w{number}").run(chance)) for number in range(WORKERS)),
    ]
    try:
        yield
    finally:
        for task in running:
            task.cancel()
        ended = await asyncio.gather(*running, return_exceptions=True)
    failures = [error for error in ended if isinstance(error, Exception)]
    assert failures == [], "a service died of something"


async def until_joined(log: KafkaLog, topics: Topics, workers: int) -> None:
    """Waits until the fleet knows so many workers: before, nobody has the type of the search's tasks."""
    state = fleet.Fleet()
    reader = log.reader({(topics.fleet.name, 0): 0})
    async with asyncio.timeout(60):
        while len(state.workers) < workers:
            for entry in await reader.read(1.0):
                record = decode(entry)
                assert record is not None
                fleet.evolve(state, record)
    await reader.close()


async def until_over(log: KafkaLog, topics: Topics) -> None:
    """Waits until the search is over."""
    streams = Streams(AGGREGATES)
    place = (topics.events.name, partition_of(STREAM, topics.event_partitions))
    reader = log.reader({place: 0})
    async with asyncio.timeout(60):
        while STREAM not in streams.by_id or not streams.by_id[STREAM].closed:
            for entry in await reader.read(1.0):
                record = decode(entry)
                assert record is not None
                assert not isinstance(record.message, CommandRefused), record.message
                streams.fold(record)
    await reader.close()


async def test_a_real_run_has_no_findings_and_what_is_planted_is_found(
    stack: Servers,
    topics: Topics,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with KafkaLog(stack.kafka_bootstrap, client_id="verify-test") as log:
        await log.ensure(topics.shared)
        command = search()
        publisher = RecordWriter("publisher", "test")
        async with services(log, topics, random.Random(seed)):
            await until_joined(log, topics, WORKERS)
            await log.publish(topics.commands.name, 1, publisher.single(STREAM, command, message_id="c-1"))
            await until_over(log, topics)
        verdict = await verify_topics(log, topics)
        assert verdict.findings == []
        assert verdict.checked["INV-3"] >= TRIALS
        assert verdict.checked["INV-8"] == 1
        assert verdict.checked["INV-5"] > verdict.checked["INV-3"]  # with the commands to devices
        await plant(log, topics)
        found = await verify_topics(log, topics)
        assert [finding.invariant for finding in found.findings] == ["INV-5"]
        monkeypatch.setenv("TRACKSIDE_KAFKA_BOOTSTRAP", stack.kafka_bootstrap)
        monkeypatch.setenv("TRACKSIDE_TOPIC_PREFIX", topics.prefix)
    assert await asyncio.to_thread(call, ["verify-log"]) == 1
    said = capsys.readouterr().out
    assert f"INV-5 {topics.device('w0', 'cpu-0').name}-0@" in said
    assert await asyncio.to_thread(call, ["verify-log", "nobody"]) == 2
    assert "no stream nobody" in capsys.readouterr().err


async def plant(log: KafkaLog, topics: Topics) -> None:
    """Appends what doesn't count, and a command to a device that nobody decided."""
    task_id = f"{STREAM}.0"
    token = {"task_id": task_id, "attempt": 9, "placement": 1, "incarnation": "nobody's"}
    late = AttemptEnded.model_validate({**token, "end": AttemptEnd.FINISHED})
    place = (topics.events.name, partition_of(STREAM, topics.event_partitions))
    await log.append(*place, [WORKER.single(STREAM, late)])
    sent = RunTask.model_validate(
        {**token, "stream": STREAM, "task_type": "noop", "parameters": {}, "device_ids": ["cpu-0"]}
    )
    await log.publish(topics.device("w0", "cpu-0").name, 0, SCHEDULER.single(task_id, sent))
