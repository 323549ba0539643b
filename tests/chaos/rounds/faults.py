"""What happens to processes while a job has its rounds: kills, and pauses that a lease doesn't survive."""

import os
import random
import signal
from contextlib import suppress
from dataclasses import dataclass, field

from tests.chaos.random_faults import pause
from tests.chaos.rounds.cluster import DISPATCHERS, RoundsCluster
from tests.chaos.rounds.job import TwoRounds
from trackside.domain.tasks.task import Task

PAUSE_S = 2.0
"""How long a process of a task is paused, and a dispatcher next to another one: longer than the lease."""
SHARED_KINDS = (
    "kill dispatcher",
    "kill both dispatchers",
    "kill scheduler",
    "kill worker",
    "pause dispatcher",
    "pause worker",
)
"""Faults that every job of the cluster has."""
TASK_KINDS = ("kill watcher", "kill service", "kill stage", "pause watcher", "pause service")
"""Faults of processes of one job."""
KINDS = SHARED_KINDS + TASK_KINDS


async def make(kind: str, job: TwoRounds, rng: random.Random) -> bool:
    """Makes a fault; says whether there was what it is about: a process that is up."""
    verb, _, what = kind.partition(" ")
    if kind in TASK_KINDS:
        return await _signal_task(verb, what, job, rng)
    cluster = job.cluster
    up = [name for name in _names(what) if cluster.processes[name].is_up]
    if what == "both dispatchers":
        return len(up) == len(DISPATCHERS) and _restart(cluster, up)
    if not up:
        return False
    if kind == "pause worker":
        return await cluster.pause_past_lease()
    name = rng.choice(up)
    if verb == "pause":
        return await _pause(cluster.processes[name].process.pid)
    return _restart(cluster, [name])


def _names(what: str) -> tuple[str, ...]:
    return DISPATCHERS if what.endswith(("dispatcher", "dispatchers")) else (what,)


def _restart(cluster: RoundsCluster, names: list[str]) -> bool:
    """Kills services with SIGKILL, all before the first is started again."""
    for name in names:
        cluster.processes[name].kill()
    for name in names:
        cluster.processes[name].start()
    return True


async def _signal_task(verb: str, what: str, job: TwoRounds, rng: random.Random) -> bool:
    tasks = job.cluster.running_tasks(job.name, job.dataset)
    found = [task for task in tasks if _purpose(task) == what]
    pids = [pid for task in found if (pid := job.cluster.process_of(task)) is not None]
    if not pids:
        return False
    if verb == "pause":
        return await _pause(rng.choice(pids))
    try:
        os.kill(rng.choice(pids), signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


async def _pause(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGSTOP)
    except ProcessLookupError:
        return False
    try:
        await pause(PAUSE_S)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    return True


def _purpose(task: Task) -> str:
    kind = "" if task.part is None else task.part.kind
    return {"watch": "watcher", "serve": "service"}.get(kind, "stage")


@dataclass
class Faults:
    """Faults of some kinds after events of these numbers, in the order of the kinds, again and again.

    One whose process is not there is made after the next event with which it is.
    """

    job: TwoRounds
    at: set[int]
    kinds: list[str]
    rng: random.Random
    made: list[str] = field(default_factory=list)
    """A line for each that was made."""
    due: int = 0
    """How many are still to be made."""

    async def after(self, number: int) -> None:
        """Makes the next fault if there is one to be made after the event of this number."""
        self.due += number in self.at
        kind = self.kinds[len(self.made) % len(self.kinds)]
        if self.due and await make(kind, self.job, self.rng):
            self.made.append(f"{kind} after event {number}")
            self.due -= 1
