"""What happens to processes while a job has its rounds: kills, and pauses that a lease doesn't survive."""

import os
import random
import signal
from contextlib import suppress
from dataclasses import dataclass, field

from tests.chaos.random_faults import pause
from tests.chaos.rounds.cluster import DISPATCHERS
from tests.chaos.rounds.job import TwoRounds
from trackside.domain.task import Task

PAUSE_S = 2.0
"""How long a process of a task is paused, and a dispatcher next to another one: longer than the lease."""
KINDS = (
    "kill dispatcher",
    "kill both dispatchers",
    "kill scheduler",
    "kill worker",
    "kill watcher",
    "kill service",
    "kill stage",
    "pause dispatcher",
    "pause worker",
    "pause watcher",
    "pause service",
)


@dataclass
class Faults:
    """Faults of some kinds after events of these numbers, in the order of the kinds, again and again."""

    job: TwoRounds
    at: set[int]
    kinds: list[str]
    rng: random.Random
    made: list[str] = field(default_factory=list)

    async def after(self, number: int) -> None:
        """Makes the next fault if there is one after the event of this number."""
        if number not in self.at:
            return
        kind = self.kinds[len(self.made) % len(self.kinds)]
        self.made.append(f"{kind} after event {number}")
        await self._make(kind)

    async def _make(self, kind: str) -> None:
        verb, _, what = kind.partition(" ")
        cluster = self.job.cluster
        if kind == "pause worker":
            await cluster.pause_past_lease()
        elif what in ("watcher", "service", "stage"):
            await self._signal_task(verb, what)
        elif verb == "pause":
            await self._pause(cluster.processes[self.rng.choice(DISPATCHERS)].process.pid)
        elif what == "both dispatchers":
            for name in DISPATCHERS:
                cluster.processes[name].kill()
            for name in DISPATCHERS:
                cluster.processes[name].start()
        else:
            await cluster.restart(self.rng.choice(DISPATCHERS) if what == "dispatcher" else what)

    async def _signal_task(self, verb: str, what: str) -> None:
        found = [task for task in self._tasks() if _purpose(task) == what]
        if not found:
            return
        pid = self.job.cluster.process_of(self.rng.choice(found))
        if pid is None:
            return
        if verb == "pause":
            await self._pause(pid)
        else:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _tasks(self) -> list[Task]:
        return self.job.cluster.running_tasks(self.job.name, self.job.dataset)

    async def _pause(self, pid: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            try:
                await pause(PAUSE_S)
            finally:
                os.kill(pid, signal.SIGCONT)


def _purpose(task: Task) -> str:
    kind = "" if task.part is None else task.part.kind
    return {"watch": "watcher", "serve": "service"}.get(kind, "stage")
