"""Dispatcher, scheduler and worker as real processes on the servers of the run, with a store."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tests.chaos.history import TIMEOUT_S, History
from tests.chaos.kills.pausing import Pauses, Point
from tests.service_processes import ServiceProcess, service_process
from tests.stack import Servers
from trackside.artifacts.opening import open_store
from trackside.artifacts.settings import StoreSettings
from trackside.artifacts.store import Store
from trackside.cli.setup import prepare
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.fleet.fleet import WorkerJoined
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Task
from trackside.embedded.processes import children_of
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.settings.settings import StackSettings
from trackside.sdk.async_client import AsyncClient

TASK_BEGINS = Point("before", "trackside.worker.child.phases:run")
STORE_FAILED = Point("before", "trackside.worker.artifacts.store_client:StoreError.__init__")
WATCHED = (TASK_BEGINS.function, STORE_FAILED.function)
SLOTS = 3
WORKER = "worker"
Result = TypeVar("Result")


@dataclass
class Cluster:
    """The running services, what the log says, and the points at which their processes can be held."""

    worker: ServiceProcess
    history: History
    client: AsyncClient
    log: KafkaLog
    topics: Topics
    pauses: Pauses
    store_folder: Path
    home: Path
    kills: dict[str, int] = field(default_factory=dict)
    _joined: int = 0

    @property
    def store(self) -> Store:
        """The store, as any process opens it."""
        return open_store(StoreSettings(store=str(self.store_folder)))

    def stream(self, stream_id: str) -> Stream | None:
        """Returns what the log says of a stream."""
        return self.history.streams.by_id.get(stream_id)

    def only_task(self, stream_id: str) -> Task | None:
        """Returns the task of a stream that has one; None before it was submitted."""
        stream = self.stream(stream_id)
        return next(iter(stream.tasks.values()), None) if stream is not None else None

    def notes(self, task_id: str) -> list[list[str]]:
        """Returns the words that a task has noted in each line."""
        path = self.home / f"{task_id}.notes"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def release(self, task_id: str) -> None:
        """Lets a task end that waits for it."""
        (self.home / f"{task_id}.released").touch()

    async def until_closed(self, stream_id: str, timeout_s: float = TIMEOUT_S) -> None:
        """Waits for the end of a stream."""

        def closed() -> bool:
            stream = self.stream(stream_id)
            return stream is not None and stream.closed

        await self.history.until(f"the end of {stream_id}", closed, timeout_s)

    async def kill(self, victim: str) -> None:
        """Kills a victim with SIGKILL, or moves the store away; a worker is started again at once."""
        self.kills[victim] = self.kills.get(victim, 0) + 1
        match victim:
            case "worker":
                self._joined = self._joins()
                await asyncio.to_thread(self.worker.restart)
            case "store process":
                os.kill(self.store_process(), signal.SIGKILL)
            case "task":
                os.kill(self.pauses.pids[TASK_BEGINS], signal.SIGKILL)
            case _:
                self.store_folder.rename(self._store_aside)

    async def until_back(self) -> None:
        """Waits until the worker has joined after its last kill: before, tasks are placed on the dead one."""
        await self.history.until("a worker that joins again", lambda: self._joins() > self._joined)

    def _joins(self) -> int:
        return sum(1 for _ in self.history.applied(WorkerJoined))

    def put_store_back(self) -> None:
        """Brings the store back, if it was moved away."""
        with suppress(FileNotFoundError):
            self._store_aside.rename(self.store_folder)

    @property
    def _store_aside(self) -> Path:
        return self.store_folder.with_name("away")

    def store_process(self) -> int:
        """Returns the pid of the worker's store process."""
        (pid,) = (
            pid
            for pid in children_of(self.worker.process.pid)
            if b"store_process" in Path(f"/proc/{pid}/cmdline").read_bytes()
        )
        return pid


async def first_of(wanted: asyncio.Future[Result], other: Awaitable[Any]) -> Result | None:
    """Waits for either; returns the result of the first one, None if the other one was there before."""
    beside = asyncio.ensure_future(other)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await asyncio.wait([wanted, beside], return_when=asyncio.FIRST_COMPLETED)
        if beside.done():
            beside.result()
        return wanted.result() if wanted.done() else None
    finally:
        beside.cancel()


@asynccontextmanager
async def cluster(
    servers: Servers,
    database: str,
    prefix: str,
    folder: Path,
    functions: set[str],
    services: Sequence[str] = ("dispatcher", "scheduler", WORKER),
) -> AsyncIterator[Cluster]:
    """Runs services, a worker among them, while the block does; their processes pause at these functions."""
    store, data, wrapped = folder / "store", folder / "worker", folder / "pauses"
    for each in (store, data, wrapped):
        each.mkdir()
    settings = StackSettings(
        kafka_bootstrap=servers.kafka_bootstrap, postgres_dsn=database, topic_prefix=prefix
    )
    variables = {
        "TRACKSIDE_KAFKA_BOOTSTRAP": servers.kafka_bootstrap,
        "TRACKSIDE_POSTGRES_DSN": database,
        "TRACKSIDE_TOPIC_PREFIX": prefix,
        "TRACKSIDE_SCHEDULER_LEASE_S": "60",  # a worker is back before, on a busy machine too
        "TRACKSIDE_SCHEDULER_RESEND_S": "0.5",
        "TRACKSIDE_STORE": str(store),
        "TRACKSIDE_WORKER_ID": "w1",
        "TRACKSIDE_WORKER_DATA_DIR": str(data),
        "TRACKSIDE_WORKER_CATALOGUE": str(Path(__file__).with_name("catalogue.yaml")),
        "TRACKSIDE_WORKER_CPU_SLOTS": str(SLOTS),
        "TRACKSIDE_WORKER_PRELOAD": "",
        "TRACKSIDE_WORKER_HEARTBEAT_INTERVAL_S": "0.2",
        "PYTHONPATH": str(wrapped),
    }
    async with AsyncExitStack() as running:
        pauses = Pauses()
        await pauses.open(wrapped, functions | set(WATCHED))
        running.callback(pauses.close)
        await prepare(settings)
        processes = {
            name: running.enter_context(service_process(name, variables, folder)) for name in services
        }
        log = await running.enter_async_context(KafkaLog(servers.kafka_bootstrap, "kills"))
        client = await running.enter_async_context(AsyncClient(servers.kafka_bootstrap, prefix, log=log))
        history = History(log, settings.topics, "")
        group = await running.enter_async_context(asyncio.TaskGroup())
        following = group.create_task(history.follow())
        found = Cluster(
            processes[WORKER], history, client, log, settings.topics, pauses, store, data / "home", {}
        )
        try:
            await history.next(WorkerJoined, 0)
            yield found
        finally:
            found.put_store_back()
            pauses.close()  # now: while services are stopped here, nothing is answered
            following.cancel()
