"""A running stack that is to be hurt: its processes, the tide of its tasks, and what was done to it when."""

import asyncio
import os
import random
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos import noticing
from tests.chaos.history import PATIENCE_S, History
from trackside.cli.commands import stack_process as stacks
from trackside.contracts.ids import trial_task_id
from trackside.contracts.searches import StopSearch
from trackside.contracts.topics import Topics
from trackside.domain.task import Task
from trackside.embedded import stack
from trackside.embedded.files import write_whole
from trackside.embedded.processes import ProcessSpec
from trackside.embedded.stack import Stack
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.log import Log
from trackside.sdk import Client
from trackside.sdk.publication import Publication

LAST_WORDS = "service stopped"
SLOTS = 3
"""As many as trials at once: the trial that the tide lets end next always has a device."""
SETTINGS = {
    "TRACKSIDE_SCHEDULER_LEASE_S": "1",
    "TRACKSIDE_SCHEDULER_HEARTBEAT_S": "0.2",
    "TRACKSIDE_SCHEDULER_RESEND_S": "0.5",
    "TRACKSIDE_WORKER_HEARTBEAT_INTERVAL_S": "0.2",
    "TRACKSIDE_WORKER_PRELOAD": "",
}


def started(folder: Path, leash: Path, bootstrap: str = "") -> Stack:
    """Starts a stack as `trackside up` does, with a short lease and short tasks.

    With a `bootstrap` its services have that for the broker's address.
    """
    listed = stacks.services(folder, Path(__file__).parent / "catalogue.yaml", SLOTS)
    settings = SETTINGS | ({"TRACKSIDE_KAFKA_BOOTSTRAP": bootstrap} if bootstrap else {})
    options = stack.StackOptions(listed, setup=stacks.SETUP, env=settings, leash=leash, timeout_s=600)
    found = stack.start(folder, options)
    (home_of_tasks(folder) / "runs").mkdir()
    return found


def home_of_tasks(folder: Path) -> Path:
    """Gives the HOME of all tasks."""
    return folder / "services" / stacks.WORKER / "home"


def folders_of(folder: Path) -> list[Path]:
    """Lists the folders in which the state of a stack and the runs of its tasks show."""
    return [folder, home_of_tasks(folder) / "runs"]


@dataclass
class Scene:
    """The stack, its history, and the chronicle of faults. Trials below `tide` may end."""

    running: Stack
    history: History
    log: Log
    client: Client
    topics: Topics
    search_id: str
    chance: random.Random
    group: asyncio.TaskGroup
    changed: asyncio.Event
    tide: int = 0
    chronicle: list[str] = field(default_factory=list)
    began_s: float = field(default_factory=monotonic_s)
    published: list[asyncio.Task[Publication]] = field(default_factory=list)
    kills: dict[str, int] = field(default_factory=dict)

    def say(self, what: str) -> None:
        """Notes what happens, with the time since the start in s."""
        self.chronicle.append(f"{monotonic_s() - self.began_s:7.2f} {what}")

    def rise(self, count: int = 1) -> int:
        """Lets the next trials end; gives the first of them."""
        first, self.tide = self.tide, self.tide + count
        write_whole(home_of_tasks(self.running.folder) / "tide", str(self.tide))
        return first

    def task(self, number: int) -> Task | None:
        """Gives the task of a trial."""
        return self.history.tasks.get(trial_task_id(self.search_id, number))

    async def filled(self) -> None:
        """Waits until every device has an attempt that can't end before the tide rises."""

        def full() -> bool:
            return len(self.history.in_flight) == SLOTS and all(
                task.trial is not None and task.trial >= self.tide for task in self.history.in_flight
            )

        await self.history.until("an attempt in flight on every device", full)

    async def pid(self, name: str) -> int:
        """Gives the pid of a program once it runs."""
        while (found := self.running.pid(name)) is None:
            await self.until(f"{name} runs", lambda: self.running.pid(name) is not None)
        return found

    async def signalled(self, name: str, number: int) -> int:
        """Sends a signal to a program, to the next one if it has just ended of itself; gives its pid."""
        while True:
            pid = await self.pid(name)
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                await self.until(f"{name} runs again", lambda gone=pid: self.running.pid(name) != gone)  # type: ignore[misc]
            else:
                return pid

    async def task_pid(self, number: int) -> int:
        """Gives the pid of the process that runs the newest attempt of a trial, or one that came after it."""
        runs = home_of_tasks(self.running.folder) / "runs"
        task = self.task(number)
        assert task is not None
        prefix, attempt = f"{task.task_id}_", task.attempt.number

        def newest() -> tuple[int, int]:
            names = [path.name.removeprefix(prefix).split("_") for path in runs.glob(f"{prefix}*")]
            return max(((int(of), int(pid)) for of, pid in names), default=(0, 0))

        await self.until(f"a process of {prefix}{attempt}", lambda: newest()[0] >= attempt)
        return newest()[1]

    async def freeze(self, name: str) -> int:
        """Stops a program in the middle of what it does; gives its pid."""
        pid = await self.signalled(name, signal.SIGSTOP)
        self.say(f"SIGSTOP {name} ({pid})")
        return pid

    def thaw(self, name: str, pid: int) -> None:
        """Lets a program go on."""
        os.kill(pid, signal.SIGCONT)
        self.say(f"SIGCONT {name} ({pid})")

    async def kill(self, name: str) -> None:
        """Kills a program while a command is being published, and sees it back."""
        self.publish()
        victim = await self.strike(name)
        await self.until(f"{name} is back", lambda: self._is_back(name, victim))
        self.say(f"{name} is back")

    async def strike(self, name: str) -> int:
        """Kills a program and gives the pid it had."""
        victim = await self.signalled(name, signal.SIGKILL)
        self.kills[name] = self.kills.get(name, 0) + 1
        last = str(self.history.lines[-1])[:160]
        self.say(f"SIGKILL {name} ({victim}), {len(self.history.in_flight)} in flight, last read: {last}")
        return victim

    def say_what_ended_of_itself(self) -> None:
        """Notes which programs were started again although nobody killed them, and their last words."""
        for process in stack.load(self.running.folder).status.processes.values():
            unasked = process.restarts - self.kills.get(process.name, 0)
            if unasked:
                lines = Path(process.log).read_text("utf-8", "replace").splitlines()
                words = [line[:2_000] for line in lines if LAST_WORDS in line]
                self.say("\n".join([f"{process.name} ended of itself {unasked} times", *words]))

    def _is_back(self, name: str, victim: int) -> bool:
        found = stack.load(self.running.folder).status.processes[name]
        return found.state == "ready" and found.pid != victim

    def publish(self) -> None:
        """Publishes a command whose answer nothing else depends on, beside everything else."""
        number = len(self.published)
        wanted = StopSearch(reason=f"publication {number}")
        sending = self.client.publish(wanted, f"absent-{number}", timeout_s=PATIENCE_S)
        self.published.append(self.group.create_task(sending))

    async def until(self, what: str, true: Callable[[], bool]) -> None:
        """Waits for a fact that shows in the folder of the stack, or in that of the runs."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not true():
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            raise AssertionError(f"never so: {what}") from None

    async def gone(self, pid: int) -> None:
        """Waits until a process has ended."""
        async with asyncio.timeout(PATIENCE_S):
            await noticing.ended(pid)

    def rival(self) -> ProcessSpec:
        """Describes a second instance of the dispatcher."""
        folder = self.running.folder
        return ProcessSpec(
            name="dispatcher-2",
            argv=[sys.executable, "-m", "trackside.dispatcher"],
            log=str(folder / "logs" / "dispatcher-2.log"),
            env={
                "TRACKSIDE_KAFKA_BOOTSTRAP": self.running.bootstrap_servers,
                "TRACKSIDE_POSTGRES_DSN": self.running.postgres_dsn,
                "TRACKSIDE_INSTANCE": "2",
            },
        )
