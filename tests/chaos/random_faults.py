"""About one fault a second, without waiting for the recovery from the last one."""

import asyncio
import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.faults import PROGRAMS
from tests.chaos.harness import SECURE, ChaosHarness, rival
from tests.chaos.proxy import Proxy
from trackside.embedded import processes

MEAN_INTERVAL_S = 1.0
MAX_DURATION_S = 3.0
"""How long a pause, a held network or a second instance lasts at most: three times the lease."""
PAUSED = ("dispatcher", "scheduler", "worker", "summary-indexer", "kafka", "postgres")
DUPLICATED = ("dispatcher", "scheduler")
FAULTS = ("kill", "kill", "kill", "pause", "pause", "pause", "rival", "task")
NETWORK_FAULTS = ("cut", "cut", "hold")
"""They need the proxy, which can't put its address into what a broker sends over TLS."""


@dataclass
class RandomFaults:
    """Random faults from the seed of the harness; lasting ones are undone after a while, or by `stop`."""

    harness: ChaosHarness
    proxy: Proxy
    counts: dict[str, int] = field(default_factory=dict)
    _paused_pids: dict[str, int] = field(default_factory=dict)
    _second_instances: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _scheduled: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self, faults: int) -> None:
        """Injects that many faults, one after another; every second one lets a trial end."""
        rng = self.harness.rng
        possible = FAULTS if SECURE else (*FAULTS, *NETWORK_FAULTS)
        for number in range(faults):
            await pause(rng.uniform(0.5, 1.5) * MEAN_INTERVAL_S)
            if number % 2:
                self.harness.release_trials()
            if number % 10 == 0:
                self.harness.publish()
            what = rng.choice(possible)
            while not self._inject(what):
                what = rng.choice(possible)
            self.counts[what] = self.counts.get(what, 0) + 1

    async def stop(self) -> None:
        """Undoes all lasting faults."""
        for task in list(self._scheduled):
            task.cancel()
        await asyncio.gather(*self._scheduled, return_exceptions=True)
        self.proxy.flow()
        for name, pid in list(self._paused_pids.items()):
            self._resume(name, pid)
        for second_instance in self._second_instances:
            await self._end(second_instance)

    def _inject(self, what: str) -> bool:
        """Injects a fault; returns False if it has no target."""
        match what:
            case "kill":
                return self._kill(self.harness.rng.choice(PROGRAMS))
            case "pause":
                return self._pause(self.harness.rng.choice(PAUSED))
            case "rival":
                return self._start_second_instance(self.harness.rng.choice(DUPLICATED))
            case "cut":
                self.harness.note("all connections to the broker are cut")
                self.proxy.cut()
            case "hold":
                self.harness.note("nothing passes to the broker")
                self.proxy.hold()
                self._after(self.proxy.flow)
            case _:
                return self._kill_task()
        return True

    def _kill(self, name: str) -> bool:
        pid = self.harness.running.pid(name)
        if pid is None:
            return False
        self._paused_pids.pop(name, None)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        self.harness.kills[name] = self.harness.kills.get(name, 0) + 1
        self.harness.note(f"SIGKILL {name} ({pid})")
        return True

    def _pause(self, name: str) -> bool:
        pid = self.harness.running.pid(name)
        if pid is None or name in self._paused_pids:
            return False
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
        self._paused_pids[name] = pid
        self.harness.note(f"SIGSTOP {name} ({pid})")
        self._after(self._resume, name, pid)
        return True

    def _resume(self, name: str, pid: int) -> None:
        if self._paused_pids.get(name) == pid:
            del self._paused_pids[name]
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    def _start_second_instance(self, name: str) -> bool:
        """Starts a second instance of a service, and kills it after a while."""
        if any(second_instance.poll() is None for second_instance in self._second_instances):
            return False
        address = "" if SECURE else self.proxy.address
        second_instance = processes.spawn(rival(self.harness.running, name, address))
        self._second_instances.append(second_instance)
        self.harness.note(f"a second {name} starts ({second_instance.pid})")
        self._after(second_instance.kill)
        return True

    def _kill_task(self) -> bool:
        runs = self.harness.running.folder / "services" / "worker" / "home" / "runs"
        for path in sorted(runs.iterdir(), reverse=True):
            pid = int(path.name.rpartition("_")[2])
            with suppress(OSError):
                if Path(f"/proc/{pid}/cwd").resolve(strict=True).is_relative_to(runs.parents[1]):
                    os.kill(pid, signal.SIGKILL)
                    self.harness.note(f"SIGKILL the process of {path.name}")
                    return True
        return False

    def _after(self, what: object, *arguments: object) -> None:
        """Calls something after a random time."""
        delay_s = self.harness.rng.uniform(0.2, MAX_DURATION_S)

        async def later() -> None:
            await pause(delay_s)
            what(*arguments)  # type: ignore[operator]

        task = asyncio.create_task(later())
        self._scheduled.add(task)
        task.add_done_callback(self._scheduled.discard)

    async def _end(self, second_instance: subprocess.Popen[bytes]) -> None:
        second_instance.kill()
        await self.harness.until_exited(second_instance.pid)
        second_instance.wait()


async def pause(seconds: float) -> None:
    """Waits a while: only the pace of the faults depends on it."""
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, over.set)
    await over.wait()
