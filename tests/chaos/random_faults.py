"""Random faults of a running stack, without waiting for the recovery from the last one."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.chaos.faults import PROGRAMS
from tests.chaos.harness import ended, rival, worker_folder
from tests.chaos.processes import forkservers, processes_in
from tests.chaos.proxy import Proxy
from tests.chaos.settings import SECURE
from trackside.cli.commands import stack_process as stacks
from trackside.embedded import processes
from trackside.embedded.stack import Stack

MAX_DURATION_S = 3.0
"""How long a pause, a held network or a second instance lasts at most: three times the short lease."""
PAUSED = ("dispatcher", "scheduler", "worker", "summary-indexer", "kafka", "postgres")
DUPLICATED = ("dispatcher", "scheduler")
RESTARTED = ("dispatcher", "scheduler", "worker", "summary-indexer")
FAULTS = ("kill", "kill", "kill", "pause", "pause", "pause", "rival", "task")
NETWORK_FAULTS = ("cut", "cut", "hold")
"""They need the proxy, which can't put its address into what a broker sends over TLS."""
BROKER = "connections to the broker"


class Injected(NamedTuple):
    """A fault that was injected: its kind, and what it was about."""

    kind: str
    target: str


@dataclass
class RandomFaults:
    """Injects faults drawn from `rng` into a stack; lasting ones are undone after a while, or by `stop`.

    `note` takes a line for each; `kinds` may have a kind several times, which is drawn as often; `programs`
    are the processes of the stack that may be killed; what lasts does so for `longest_s` at most; `variables`
    are those that the stack was started with. `makers` are by kind: each returns what its fault is about, or
    nothing if there is no such process now.
    """

    running: Stack
    rng: random.Random
    proxy: Proxy
    note: Callable[[str], None]
    kinds: Sequence[str] = FAULTS if SECURE else (*FAULTS, *NETWORK_FAULTS)
    programs: Sequence[str] = PROGRAMS
    longest_s: float = MAX_DURATION_S
    variables: Mapping[str, str] = field(default_factory=dict)
    kills: dict[str, int] = field(default_factory=dict)
    counts: Counter[Injected] = field(default_factory=Counter)
    makers: dict[str, Callable[[], str]] = field(init=False)
    _paused_pids: dict[str, int] = field(default_factory=dict)
    _second_instances: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _scheduled: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.makers = {
            "kill": lambda: self._kill(self.rng.choice(self.programs)),
            "pause": lambda: self._pause(self.rng.choice(PAUSED)),
            "rival": lambda: self._start_second_instance(self.rng.choice(DUPLICATED)),
            "cut": self._cut,
            "hold": self._hold,
            "task": self._kill_task,
            "forkserver": self._kill_forkserver,
            "hand over": self._hand_over,
            "restart": lambda: self._restart(self.rng.choice(RESTARTED)),
        }

    def inject(self, kinds: Collection[str] = ()) -> Injected:
        """Injects a fault of a random kind, one of `kinds` if some are given; draws until it has a target."""
        possible = list(kinds or self.kinds)
        while True:
            kind = self.rng.choice(possible)
            if target := self.makers[kind]():
                injected = Injected(kind, target)
                self.counts[injected] += 1
                return injected

    async def stop(self) -> None:
        """Undoes all lasting faults."""
        for task in list(self._scheduled):
            task.cancel()
        await asyncio.gather(*self._scheduled, return_exceptions=True)
        self.proxy.flow()
        for name, pid in list(self._paused_pids.items()):
            self._resume(name, pid)
        for second_instance in self._second_instances:
            second_instance.kill()
            await ended(second_instance.pid)
            second_instance.wait()

    def after(self, what: Callable[[], object], longest_s: float = 0.0) -> None:
        """Calls something after a random time; `stop` leaves it out."""
        delay_s = self.rng.uniform(0.2, longest_s or self.longest_s)

        async def later() -> None:
            await pause(delay_s)
            what()

        self.meanwhile(later())

    def meanwhile(self, work: Awaitable[None]) -> None:
        """Runs something that is cancelled by `stop`."""
        task = asyncio.ensure_future(work)
        self._scheduled.add(task)
        task.add_done_callback(self._scheduled.discard)

    def _kill(self, name: str) -> str:
        pid = self.running.pid(name)
        if pid is None:
            return ""
        self._paused_pids.pop(name, None)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        self.kills[name] = self.kills.get(name, 0) + 1
        self.note(f"SIGKILL {name} ({pid})")
        return name

    def _pause(self, name: str) -> str:
        pid = self.running.pid(name)
        if pid is None or name in self._paused_pids:
            return ""
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
        self._paused_pids[name] = pid
        self.note(f"SIGSTOP {name} ({pid})")
        self.after(lambda: self._resume(name, pid))
        return name

    def _resume(self, name: str, pid: int) -> None:
        if self._paused_pids.get(name) == pid:
            del self._paused_pids[name]
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    def _start_second_instance(self, name: str) -> str:
        """Starts a second instance of a service, and kills it after a while."""
        self._second_instances = [each for each in self._second_instances if each.poll() is None]
        if self._second_instances:
            return ""
        address = "" if SECURE else self.proxy.address
        second_instance = processes.spawn(rival(self.running, name, address, self.variables))
        self._second_instances.append(second_instance)
        self.note(f"a second {name} starts ({second_instance.pid})")
        self.after(second_instance.kill)
        return name

    def _cut(self) -> str:
        self.note("all connections to the broker are cut")
        self.proxy.cut()
        return BROKER

    def _hold(self) -> str:
        self.note("nothing passes to the broker")
        self.proxy.hold()
        self.after(self.proxy.flow)
        return BROKER

    def _kill_task(self) -> str:
        return self._kill_one(
            processes_in(worker_folder(self.running.folder) / "tasks"), "a process of a task"
        )

    def _kill_forkserver(self) -> str:
        return self._kill_one(forkservers(self.running), "the forkserver")

    def _kill_one(self, pids: list[int], what: str) -> str:
        if not pids:
            return ""
        pid = self.rng.choice(sorted(pids))
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        self.note(f"SIGKILL {what} ({pid})")
        return what

    def _hand_over(self) -> str:
        pid = self.running.pid(stacks.WORKER)
        if pid is None or stacks.WORKER in self._paused_pids:
            return ""
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGUSR1)
        self._count_end(stacks.WORKER)
        self.note(f"SIGUSR1 {stacks.WORKER} ({pid})")
        return stacks.WORKER

    def _restart(self, name: str) -> str:
        """Runs `trackside restart` for a service."""
        command = [str(Path(sys.executable).parent / "trackside"), "restart", name]
        self._count_end(name)
        self.note(f"trackside restart {name}")
        self.meanwhile(_run(command, self.running.folder.parent))
        return name

    def _count_end(self, name: str) -> None:
        self.kills[name] = self.kills.get(name, 0) + 1


async def _run(command: list[str], folder: Path) -> None:
    """Runs a command, which may fail while the stack has other faults; kills it if it is cancelled."""
    running = await asyncio.create_subprocess_exec(
        *command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    )
    try:
        await running.wait()
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()


async def pause(seconds: float) -> None:
    """Waits a while: only the pace of the faults depends on it."""
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, over.set)
    await over.wait()
