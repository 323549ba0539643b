"""Two dispatchers, a scheduler and a worker as real processes, and jobs whose datasets are files."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.history import TIMEOUT_S, History
from tests.chaos.rounds.waits import sitecustomize
from tests.service_processes import ServiceProcess, service_process
from tests.stack import Servers
from trackside.artifacts.opening import open_store
from trackside.artifacts.settings import StoreSettings
from trackside.cli.setup import prepare
from trackside.contracts.envelope.message import Command
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.fleet.fleet import WorkerJoined, WorkerLost
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Task, TaskState
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.settings.settings import StackSettings
from trackside.sdk.async_client import AsyncClient

LEASE_S = 1.5
DISPATCHERS = ("dispatcher", "dispatcher-2")
WORKER, WORKER_ID = "worker", "w1"


@dataclass
class RoundsCluster:
    """The running services, what the log says, and the folder of the datasets and outputs of all jobs."""

    processes: dict[str, ServiceProcess]
    history: History
    client: AsyncClient
    log: KafkaLog
    topics: Topics
    addresses: dict[str, str]
    """The variables with which any command finds the servers and the topics."""
    folder: Path

    async def send(self, command: Command, stream: str) -> None:
        """Publishes a command, which has to be accepted."""
        await self.client.send(command, stream, TIMEOUT_S)

    @property
    def store(self) -> str:
        """Where the artifacts are."""
        return str(self.folder / "store")

    @property
    def database(self) -> str:
        """The DSN of the rows."""
        return self.addresses["TRACKSIDE_POSTGRES_DSN"]

    def put(self, content: bytes) -> str:
        """Puts an artifact into the store; returns its reference as JSON."""
        store = open_store(StoreSettings(store=self.store))
        return store.put(content).model_dump_json()

    def stream(self, stream_id: str) -> Stream | None:
        """Returns what the log says of a stream."""
        return self.history.streams.by_id.get(stream_id)

    def running_tasks(self, *streams: str) -> list[Task]:
        """Returns the tasks of streams that run."""
        found = [self.stream(each) for each in streams]
        tasks = [task for stream in found if stream is not None for task in stream.tasks.values()]
        return [task for task in tasks if task.state is TaskState.ACTIVE]

    def process_of(self, task: Task) -> int | None:
        """Returns the process of a task that runs: the one that works in its folder; None without one."""
        folders = {self.folder / "data" / "tasks" / key for key in self._placements_of(task)}
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                at = (entry / "cwd").readlink()
                if folders.intersection((at, *at.parents)):
                    return int(entry.name)
        return None

    def _placements_of(self, task: Task) -> Iterator[str]:
        """Yields the keys of the placements of a task that its worker has accepted."""
        for file in (self.folder / "data" / "journal").glob("*.json"):
            with suppress(OSError, ValueError):  # it is being written or removed
                if json.loads(file.read_text())["task_id"] == task.task_id:
                    yield file.stem

    async def pause_past_lease(self) -> bool:
        """Pauses the worker until it is declared lost; says whether it had a lease that could end."""
        process, lost = self.processes[WORKER].process, self._count(WorkerLost)
        joins, known = self._count(WorkerJoined), self.history.fleet.workers.get(WORKER_ID)
        if not self.processes[WORKER].is_up or known is None or known.gone:  # it is starting
            return False
        process.send_signal(signal.SIGSTOP)
        try:
            await self.history.until("a lost worker", lambda: self._count(WorkerLost) > lost)
        finally:
            process.send_signal(signal.SIGCONT)
        await self.history.until("the worker joins again", lambda: self._count(WorkerJoined) > joins)
        return True

    def _count(self, kind: type[WorkerJoined] | type[WorkerLost]) -> int:
        return sum(1 for _ in self.history.applied(kind))


@asynccontextmanager
async def rounds_cluster(
    servers: Servers, database: str, prefix: str, folder: Path, dispatchers: int = 2
) -> AsyncIterator[RoundsCluster]:
    """Runs the services while the block does; they start fast, and wait only shortly for a next try."""
    for name in ("store", "data", *DISPATCHERS):
        (folder / name).mkdir()
    settings = StackSettings(
        kafka_bootstrap=servers.kafka_bootstrap, postgres_dsn=database, topic_prefix=prefix
    )
    addresses = {
        "TRACKSIDE_KAFKA_BOOTSTRAP": servers.kafka_bootstrap,
        "TRACKSIDE_POSTGRES_DSN": database,
        "TRACKSIDE_TOPIC_PREFIX": prefix,
    }
    variables = {
        **addresses,
        "TRACKSIDE_SCHEDULER_LEASE_S": str(LEASE_S),
        "TRACKSIDE_SCHEDULER_HEARTBEAT_S": "0.2",
        "TRACKSIDE_SCHEDULER_RESEND_S": "0.5",
        "TRACKSIDE_STORE": str(folder / "store"),
        "TRACKSIDE_WORKER_ID": WORKER_ID,
        "TRACKSIDE_WORKER_DATA_DIR": str(folder / "data"),
        "TRACKSIDE_WORKER_CATALOGUE": str(Path(__file__).with_name("catalogue.yaml")),
        "TRACKSIDE_WORKER_CPU_SLOTS": "2",
        "TRACKSIDE_WORKER_HEARTBEAT_INTERVAL_S": "0.2",
        "TRACKSIDE_WORKER_PRELOAD": "",
        "PYTHONPATH": str(Path(sitecustomize.__file__).parent),
    }
    async with AsyncExitStack() as running:
        await prepare(settings)
        processes = {
            name: running.enter_context(service_process(name.partition("-")[0], variables, folder / name))
            for name in DISPATCHERS[:dispatchers]
        }
        for name in ("scheduler", WORKER):
            processes[name] = running.enter_context(service_process(name, variables, folder))
        log = await running.enter_async_context(KafkaLog(servers.kafka_bootstrap, "rounds"))
        client = await running.enter_async_context(AsyncClient(servers.kafka_bootstrap, prefix, log=log))
        history = History(log, settings.topics, "")
        group = await running.enter_async_context(asyncio.TaskGroup())
        following = group.create_task(history.follow())
        found = RoundsCluster(processes, history, client, log, settings.topics, addresses, folder)
        try:
            await history.next(WorkerJoined, 0)
            yield found
        finally:
            following.cancel()
            for each in processes.values():  # none may be paused while it is stopped
                with suppress(ProcessLookupError):
                    os.kill(each.process.pid, signal.SIGCONT)
