"""About one fault a second, whatever the last one has left: nobody waits for things to be well again."""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.faults import PROGRAMS
from tests.chaos.proxy import Proxy
from tests.chaos.scene import Scene
from trackside.embedded import processes
from trackside.embedded.processes import ProcessSpec

EVERY_S = 1.0
LONGEST_S = 3.0
"""How long a pause, a held network or a rival lasts at most: three times the lease."""
PAUSED = ("dispatcher", "scheduler", "worker", "summary-indexer", "kafka", "postgres")
RIVALS = ("dispatcher", "scheduler")
FAULTS = ("kill", "kill", "kill", "pause", "pause", "pause", "rival", "cut", "cut", "hold", "task")


@dataclass
class Storm:
    """Faults drawn from the scene's seed; what lasts is ended after its time, or when the storm is over."""

    scene: Scene
    proxy: Proxy
    counts: dict[str, int] = field(default_factory=dict)
    _paused: dict[str, int] = field(default_factory=dict)
    _rivals: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _lasting: set[asyncio.Task[None]] = field(default_factory=set)

    async def rage(self, faults: int) -> None:
        """Commits so many faults, one after another; every second one lets a trial end."""
        chance = self.scene.chance
        for number in range(faults):
            await _passed(chance.uniform(0.5, 1.5) * EVERY_S)
            if number % 2:
                self.scene.rise()
            if number % 10 == 0:
                self.scene.publish()
            what = chance.choice(FAULTS)
            while not self._commit(what):
                what = chance.choice(FAULTS)
            self.counts[what] = self.counts.get(what, 0) + 1

    async def calm(self) -> None:
        """Ends all that lasts."""
        for task in list(self._lasting):
            task.cancel()
        await asyncio.gather(*self._lasting, return_exceptions=True)
        self.proxy.flow()
        for name, pid in list(self._paused.items()):
            self._thaw(name, pid)
        for rival in self._rivals:
            await self._end(rival)

    def _commit(self, what: str) -> bool:
        """Commits a fault; False if there is nothing to commit it on."""
        match what:
            case "kill":
                return self._kill(self.scene.chance.choice(PROGRAMS))
            case "pause":
                return self._pause(self.scene.chance.choice(PAUSED))
            case "rival":
                return self._rival(self.scene.chance.choice(RIVALS))
            case "cut":
                self.scene.say("all connections to the broker are cut")
                self.proxy.cut()
            case "hold":
                self.scene.say("nothing passes to the broker")
                self.proxy.hold()
                self._after(self.proxy.flow)
            case _:
                return self._kill_task()
        return True

    def _kill(self, name: str) -> bool:
        pid = self.scene.running.pid(name)
        if pid is None:
            return False
        self._paused.pop(name, None)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        self.scene.kills[name] = self.scene.kills.get(name, 0) + 1
        self.scene.say(f"SIGKILL {name} ({pid})")
        return True

    def _pause(self, name: str) -> bool:
        pid = self.scene.running.pid(name)
        if pid is None or name in self._paused:
            return False
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
        self._paused[name] = pid
        self.scene.say(f"SIGSTOP {name} ({pid})")
        self._after(self._thaw, name, pid)
        return True

    def _thaw(self, name: str, pid: int) -> None:
        if self._paused.get(name) == pid:
            del self._paused[name]
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    def _rival(self, name: str) -> bool:
        """Starts a second instance of a service, which is killed after a while."""
        if any(rival.poll() is None for rival in self._rivals):
            return False
        rival = processes.spawn(rival_of(self.scene, name, self.proxy.address))
        self._rivals.append(rival)
        self.scene.say(f"a second {name} starts ({rival.pid})")
        self._after(rival.kill)
        return True

    def _kill_task(self) -> bool:
        runs = self.scene.running.folder / "services" / "worker" / "home" / "runs"
        for path in sorted(runs.iterdir(), reverse=True):
            pid = int(path.name.rpartition("_")[2])
            with suppress(OSError):
                if Path(f"/proc/{pid}/cwd").resolve(strict=True).is_relative_to(runs.parents[1]):
                    os.kill(pid, signal.SIGKILL)
                    self.scene.say(f"SIGKILL the process of {path.name}")
                    return True
        return False

    def _after(self, what: object, *arguments: object) -> None:
        """Does something after a while, drawn by chance."""
        delay_s = self.scene.chance.uniform(0.2, LONGEST_S)

        async def later() -> None:
            await _passed(delay_s)
            what(*arguments)  # type: ignore[operator]

        task = asyncio.create_task(later())
        self._lasting.add(task)
        task.add_done_callback(self._lasting.discard)

    async def _end(self, rival: subprocess.Popen[bytes]) -> None:
        rival.kill()
        await self.scene.gone(rival.pid)
        rival.wait()


def rival_of(scene: Scene, name: str, bootstrap: str) -> ProcessSpec:
    """Describes a second instance of a service."""
    folder = scene.running.folder
    return ProcessSpec(
        name=f"{name}-2",
        argv=[sys.executable, "-m", f"trackside.{name}"],
        log=str(folder / "logs" / f"{name}-2.log"),
        env={
            "TRACKSIDE_KAFKA_BOOTSTRAP": bootstrap,
            "TRACKSIDE_POSTGRES_DSN": scene.running.postgres_dsn,
            "TRACKSIDE_INSTANCE": "2",
            "TRACKSIDE_SCHEDULER_LEASE_S": "1",
            "TRACKSIDE_SCHEDULER_HEARTBEAT_S": "0.2",
            "TRACKSIDE_SCHEDULER_RESEND_S": "0.5",
        },
    )


async def _passed(seconds: float) -> None:
    """Lets time pass: it is the pace of the faults, nothing is waited for."""
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, over.set)
    await over.wait()
