"""A running stack for fault injection: its processes, the release of its tasks, and a log of the faults."""

import asyncio
import ctypes
import os
import random
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from tests.chaos.history import TIMEOUT_S, History
from tests.chaos.settings import SECURE
from trackside.aggregates.search.messages import StopSearch
from trackside.cli.commands import stack_process as stacks
from trackside.contracts.envelope.ids import trial_task_id
from trackside.contracts.envelope.topics import Topics
from trackside.domain.tasks.task import Task
from trackside.embedded import stack
from trackside.embedded.files import write_whole
from trackside.embedded.options import StackOptions
from trackside.embedded.processes import ProcessSpec
from trackside.embedded.stack import Stack
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.keys.key_folder import KeyFolder
from trackside.eventlog.log import Log
from trackside.eventlog.settings import secure_folder
from trackside.sdk import Client
from trackside.sdk.connection.publication import PublishedCommand

_LIBC = ctypes.CDLL(None, use_errno=True)
_MODIFIED = 0x02  # IN_MODIFY
_CREATED_OR_MOVED_HERE = 0x100 | 0x80  # IN_CREATE | IN_MOVED_TO of <sys/inotify.h>
_EVENTS_BYTES = 65_536
STOP_MESSAGE = "service stopped"
CATALOGUE = Path(__file__).with_name("catalogue.yaml")
SLOTS = 3
"""Equal to the search's concurrency, so that the trial that is released next always has a device."""
SETTINGS = {
    "TRACKSIDE_SCHEDULER_LEASE_S": "1",
    "TRACKSIDE_SCHEDULER_HEARTBEAT_S": "0.2",
    "TRACKSIDE_SCHEDULER_RESEND_S": "0.5",
    "TRACKSIDE_WORKER_HEARTBEAT_INTERVAL_S": "0.2",
    # Less than after what time the supervisor replaces a worker that is stopped: its attempts are lost first.
    "TRACKSIDE_WORKER_KEEP_TASKS_S": "10",
    "TRACKSIDE_WORKER_PRELOAD": "",
}


def start_stack(
    folder: Path,
    leash: Path,
    bootstrap: str = "",
    catalogue: Path = CATALOGUE,
    slots: int = SLOTS,
    variables: Mapping[str, str] = MappingProxyType({}),
    spares_after_s: float | None = None,
) -> Stack:
    """Starts a stack as `trackside up` does, with a short lease and short tasks, and spares if asked for.

    With a `bootstrap` its services use that address of the broker; `variables` are added to their
    environment. If TRACKSIDE_CHAOS_SECURE is set, the broker takes only users, over TLS, and signatures are
    required.
    """
    listed = stacks.services(folder, catalogue, slots)
    setup = stacks.setup_commands(folder, secure=SECURE)
    settings = {**SETTINGS, **variables} | ({"TRACKSIDE_KAFKA_BOOTSTRAP": bootstrap} if bootstrap else {})
    options = StackOptions(
        listed,
        setup=setup,
        env=settings,
        leash=leash,
        timeout_s=600,
        secure=SECURE,
        spares_after_s=spares_after_s,
    )
    found = stack.start(folder, options)
    (task_home(folder) / "runs").mkdir()
    return found


def rival(
    running: Stack, name: str, bootstrap: str = "", variables: Mapping[str, str] = MappingProxyType({})
) -> ProcessSpec:
    """Returns the process of a second instance of a service.

    `bootstrap` and `variables` are as for `start_stack`.
    """
    settings = {**SETTINGS, **variables}
    env = {
        "TRACKSIDE_KAFKA_BOOTSTRAP": bootstrap or running.bootstrap_servers,
        "TRACKSIDE_POSTGRES_DSN": running.postgres_dsn,
        "TRACKSIDE_INSTANCE": "2",
        **{variable: value for variable, value in settings.items() if "_SCHEDULER_" in variable},
    }
    if running.status.secure:
        secure = Path(running.status.secure)
        key = KeyFolder(secure / secure_folder.KEYS).file(name)
        env |= {**secure_folder.variables_of(secure, name), "TRACKSIDE_SIGNING_KEY_FILE": str(key)}
    return ProcessSpec(
        name=f"{name}-2",
        argv=[sys.executable, "-m", f"trackside.{name}"],
        log=str(running.folder / "logs" / f"{name}-2.log"),
        env=env,
    )


def worker_folder(folder: Path) -> Path:
    """Returns the folder of the worker of a stack."""
    return folder / "services" / stacks.WORKER


def task_home(folder: Path) -> Path:
    """Returns the HOME of all tasks."""
    return worker_folder(folder) / "home"


def watched_folders(folder: Path) -> list[Path]:
    """Returns the folders that change with the state of a stack and the runs of its tasks."""
    return [folder, task_home(folder) / "runs"]


@dataclass
class ChaosHarness:
    """The stack, its history, and the log of faults. Trials below `released` may end."""

    running: Stack
    history: History
    log: Log
    client: Client
    topics: Topics
    search_id: str
    rng: random.Random
    group: asyncio.TaskGroup
    changed: asyncio.Event
    released: int = 0
    fault_log: list[str] = field(default_factory=list)
    began_s: float = field(default_factory=monotonic_s)
    published: list[asyncio.Task[PublishedCommand]] = field(default_factory=list)
    kills: dict[str, int] = field(default_factory=dict)

    def note(self, what: str) -> None:
        """Adds a line to the fault log, with the time since the start, s."""
        self.fault_log.append(f"{monotonic_s() - self.began_s:7.2f} {what}")

    def release_trials(self, count: int = 1) -> int:
        """Lets the next trials end; returns the number of the first."""
        first, self.released = self.released, self.released + count
        write_whole(task_home(self.running.folder) / "released", str(self.released))
        return first

    def task(self, number: int) -> Task | None:
        """Returns the task of a trial."""
        return self.history.tasks.get(trial_task_id(self.search_id, number))

    async def until_devices_busy(self) -> None:
        """Waits until every device runs an attempt that is not released."""

        def full() -> bool:
            return len(self.history.in_flight) == SLOTS and all(
                task.part is not None and task.part.number >= self.released for task in self.history.in_flight
            )

        await self.history.until("an attempt in flight on every device", full)

    async def pid(self, name: str) -> int:
        """Returns the pid of a process once it runs."""
        while (found := self.running.pid(name)) is None:
            await self.until(f"{name} runs", lambda: self.running.pid(name) is not None)
        return found

    async def signalled(self, name: str, number: int) -> int:
        """Sends a signal to a process, to its successor if it has just ended; returns the pid."""
        while True:
            pid = await self.pid(name)
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                await self.until(f"{name} runs again", lambda gone=pid: self.running.pid(name) != gone)  # type: ignore[misc]
            else:
                return pid

    async def task_pid(self, number: int) -> int:
        """Returns the pid of the process that runs the newest attempt of a trial, or a later one."""
        runs = task_home(self.running.folder) / "runs"
        task = self.task(number)
        assert task is not None
        prefix, attempt = f"{task.task_id}_", task.attempt.number

        def newest() -> tuple[int, int]:
            names = [path.name.removeprefix(prefix).split("_") for path in runs.glob(f"{prefix}*")]
            return max(((int(of), int(pid)) for of, pid in names), default=(0, 0))

        await self.until(f"a process of {prefix}{attempt}", lambda: newest()[0] >= attempt)
        return newest()[1]

    async def pause(self, name: str) -> int:
        """Pauses a process; returns its pid."""
        pid = await self.signalled(name, signal.SIGSTOP)
        self.note(f"SIGSTOP {name} ({pid})")
        return pid

    def resume(self, name: str, pid: int) -> None:
        """Resumes a process."""
        os.kill(pid, signal.SIGCONT)
        self.note(f"SIGCONT {name} ({pid})")

    async def kill_and_wait(self, name: str) -> None:
        """Kills a process while a command is being published, and waits until its successor is ready."""
        self.publish()
        victim = await self.kill_at_once(name)
        await self.until(f"{name} is back", lambda: self._is_back(name, victim))
        self.note(f"{name} is back")

    async def kill_at_once(self, name: str) -> int:
        """Kills a process; returns its pid."""
        victim = await self.signalled(name, signal.SIGKILL)
        self.kills[name] = self.kills.get(name, 0) + 1
        last = str(self.history.records[-1])[:160]
        self.note(f"SIGKILL {name} ({victim}), {len(self.history.in_flight)} in flight, last read: {last}")
        return victim

    def note_unexpected_restarts(self) -> None:
        """Notes which processes restarted without being killed, and the messages of their end."""
        for process in stack.load(self.running.folder).status.processes.values():
            unasked = process.restarts - self.kills.get(process.name, 0)
            if unasked:
                lines = Path(process.log).read_text("utf-8", "replace").splitlines()
                words = [line[:2_000] for line in lines if STOP_MESSAGE in line]
                self.note("\n".join([f"{process.name} ended by itself {unasked} times", *words]))

    def _is_back(self, name: str, victim: int) -> bool:
        found = stack.load(self.running.folder).status.processes[name]
        return found.state == "ready" and found.pid != victim

    def publish(self) -> None:
        """Publishes a command concurrently, on whose answer nothing else depends."""
        number = len(self.published)
        wanted = StopSearch(reason=f"publication {number}")
        sending = self.client.publish(wanted, f"absent-{number}", timeout_s=TIMEOUT_S)
        self.published.append(self.group.create_task(sending))

    async def until(self, what: str, true: Callable[[], bool]) -> None:
        """Waits until a condition on the watched folders holds; AssertionError says what never did."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while not true():
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            raise AssertionError(f"never happened: {what}") from None

    async def until_exited(self, pid: int) -> None:
        """Waits until a process has ended."""
        async with asyncio.timeout(TIMEOUT_S):
            await ended(pid)


@contextmanager
def watched_files(paths: Iterable[Path], kinds: int = _CREATED_OR_MOVED_HERE) -> Iterator[asyncio.Event]:
    """Yields an event that is set whenever a file is created in one of the folders, or moved there."""
    annotated = asyncio.Event()
    descriptor = _LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    for path in paths:
        if _LIBC.inotify_add_watch(descriptor, os.fsencode(path), kinds) < 0:
            raise OSError(ctypes.get_errno(), "inotify_add_watch", str(path))

    def read() -> None:
        os.read(descriptor, _EVENTS_BYTES)
        annotated.set()

    loop = asyncio.get_running_loop()
    loop.add_reader(descriptor, read)
    try:
        yield annotated
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


async def until_file(path: Path, enough: Callable[[Path], bool]) -> None:
    """Waits until a file that is being written fulfils a condition."""
    with watched_files([path], _MODIFIED) as changed:
        while not enough(path):
            await changed.wait()
            changed.clear()


async def ended(pid: int) -> None:
    """Waits until a process has ended; at once if there is none."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    over, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(descriptor, over.set)
    try:
        await over.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
