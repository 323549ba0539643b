"""Two dispatchers, a scheduler and a worker as real processes, and jobs whose datasets are files."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.history import History
from tests.service_processes import ServiceProcess, service_process
from tests.stack import Servers
from trackside.artifacts.opening import open_store
from trackside.artifacts.settings import StoreSettings
from trackside.cli.setup import prepare
from trackside.contracts.fleet import WorkerJoined, WorkerLost
from trackside.contracts.topics import Topics
from trackside.domain.stream import Stream
from trackside.domain.task import Task, TaskState
from trackside.eventlog.kafka import KafkaLog
from trackside.eventlog.settings import StackSettings
from trackside.sdk.async_client import AsyncClient

LEASE_S = 1.5
DISPATCHERS = ("dispatcher", "dispatcher-2")
WORKER = "worker"


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

    @property
    def database(self) -> str:
        """The DSN of the rows."""
        return self.addresses["TRACKSIDE_POSTGRES_DSN"]

    def put(self, content: bytes) -> str:
        """Puts an artifact into the store; returns its reference as JSON."""
        store = open_store(StoreSettings(store=str(self.folder / "store")))
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
        tasks = self.folder / "data" / "tasks"
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                at = (entry / "cwd").readlink()
                if at.is_relative_to(tasks) and task.task_id in str(at.relative_to(tasks)):
                    return int(entry.name)
        return None

    async def restart(self, name: str) -> None:
        """Kills a service with SIGKILL, and starts it again."""
        await asyncio.to_thread(self.processes[name].restart)

    async def pause_past_lease(self) -> None:
        """Pauses the worker until it is declared lost."""
        process, lost = self.processes[WORKER].process, self._count(WorkerLost)
        if not self.processes[WORKER].is_up:  # it is starting: there is no lease that could end
            return
        joins = self._count(WorkerJoined)
        if joins <= lost:
            return
        process.send_signal(signal.SIGSTOP)
        try:
            await self.history.until("a lost worker", lambda: self._count(WorkerLost) > lost)
        finally:
            process.send_signal(signal.SIGCONT)
        await self.history.until("the worker joins again", lambda: self._count(WorkerJoined) > joins)

    def _count(self, kind: type[WorkerJoined] | type[WorkerLost]) -> int:
        return sum(1 for _ in self.history.applied(kind))


@asynccontextmanager
async def rounds_cluster(
    servers: Servers, database: str, prefix: str, folder: Path, dispatchers: int = 2
) -> AsyncIterator[RoundsCluster]:
    """Runs the services while the block does."""
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
        "TRACKSIDE_WORKER_ID": "w1",
        "TRACKSIDE_WORKER_DATA_DIR": str(folder / "data"),
        "TRACKSIDE_WORKER_CATALOGUE": str(Path(__file__).with_name("catalogue.yaml")),
        "TRACKSIDE_WORKER_CPU_SLOTS": "2",
        "TRACKSIDE_WORKER_HEARTBEAT_INTERVAL_S": "0.2",
        "TRACKSIDE_WORKER_PRELOAD": "",
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
