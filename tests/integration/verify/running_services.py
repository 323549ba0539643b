"""Services that run in this process on a real Kafka: two dispatchers, two schedulers and two workers."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import StartSearch
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.fleet.fleet import Device
from trackside.contracts.streams.commands import CommandRefused
from trackside.domain.fleet import fleet
from trackside.domain.folding.streams import Streams
from trackside.domain.streams.stream import Stream
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.keys.decision_signer import DecisionSigner
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.keys.key_folder import KeyFolder
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Log, TopicPartition
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.scheduler.settings import SchedulerSettings
from trackside.simulation.host.worker_state import Workload
from trackside.simulation.services import dispatcher, scheduler
from trackside.simulation.worker import SimulatedWorker

STREAM = "s"
WORKERS = 2
NAMES = ("dispatcher-0", "dispatcher-1", "scheduler-0", "scheduler-1", "w0", "w1")
PATIENCE_S = 120.0


def search(trials: int) -> StartSearch:
    space = {"x": {"type": "uniform", "low": 0.0, "high": 1.0}}
    plain = {"task_type": "noop", "space": space, "tuner": {"name": "random"}, "max_trials": trials}
    return StartSearch.model_validate({**plain, "concurrency": 6})


@dataclass
class RunningServices:
    """The processes of a small installation, each a task; with `keys` they sign."""

    log: Log
    topics: Topics
    chance: random.Random
    keys: KeyFolder | None = None
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    def start(self, *names: str) -> None:
        """Starts services; each signs with the key that the folder has of it now."""
        for name in names:
            self.tasks[name] = asyncio.create_task(self._run(name))

    async def _run(self, name: str) -> None:
        role, _, number = name.partition("-")
        signer = self._signer(role)
        made = partial(ServiceContext.on, self.log, self.topics, role, number, signer)
        if role == "dispatcher":
            await dispatcher(made, self.chance, lambda _: None)
        elif role == "scheduler":
            settings = SchedulerSettings(lease_s=0.5, heartbeat_s=0.05, resend_s=0.1)
            await scheduler(made, settings, lambda _: None)
        else:
            await self._worker(name, signer).run(self.chance)

    def _signer(self, role: str) -> DecisionSigner | None:
        if self.keys is None:
            return None
        return self.keys.signer(f"worker-{role}" if role.startswith("w") else role)

    def _worker(self, name: str, signer: DecisionSigner | None) -> SimulatedWorker:
        """Returns a worker with two slots whose tasks take a few ms."""
        slots = [Device(device_id=f"cpu-{at}", kind="cpu", name="cpu", memory_bytes=2**33) for at in range(2)]
        made = SimulatedWorker(self.log, self.topics, name, slots, Workload(seconds=(0.005, 0.03), reports=3))
        made.writer = RecordWriter("worker", name, signer)
        made.heartbeat_s = 0.05
        return made

    async def stop(self, *names: str) -> list[Exception]:
        stopped = [self.tasks.pop(name) for name in names or (*self.tasks,)]
        for task in stopped:
            task.cancel()
        ended = await asyncio.gather(*stopped, return_exceptions=True)
        return [error for error in ended if isinstance(error, Exception)]


@asynccontextmanager
async def running(
    log: Log, topics: Topics, chance: random.Random, keys: KeyFolder | None = None
) -> AsyncIterator[RunningServices]:
    """Runs all services on a log; fails if one has died."""
    services = RunningServices(log, topics, chance, keys)
    services.start(*NAMES)
    try:
        yield services
    finally:
        failures = await services.stop()
    assert failures == [], "a service died of something"


async def follow(log: KafkaLog, place: TopicPartition, holds: Callable[[Record], bool]) -> None:
    """Reads a partition from its start until something holds after a record."""
    reader = log.reader({place: 0})
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for entry in await reader.read(1.0):
                    record = decode(entry)
                    assert record is not None
                    if holds(record):
                        return
    finally:
        await reader.close()


async def until_joined(log: KafkaLog, topics: Topics, workers: int) -> None:
    """Waits until the fleet knows so many workers: before, no worker has the type of the search's tasks."""
    state = fleet.Fleet()

    def joined(record: Record) -> bool:
        fleet.evolve(state, record)
        return len(state.workers) >= workers

    await follow(log, (topics.fleet.name, 0), joined)


async def until(log: KafkaLog, topics: Topics, reached: Callable[[Stream], bool]) -> Stream:
    """Waits until the search has reached a state, and returns that."""
    streams = Streams(AGGREGATES)

    def holds(record: Record) -> bool:
        assert not isinstance(record.message, CommandRefused), record.message
        stream, _ = streams.fold(record)
        return stream.stream_id == STREAM and reached(stream)

    await follow(log, (topics.events.name, partition_of(STREAM, topics.event_partitions)), holds)
    return streams.by_id[STREAM]
