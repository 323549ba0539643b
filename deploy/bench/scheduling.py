"""Decisions of the scheduler's pure part, beside a loop that pops a heap and makes the same events."""

import heapq
import itertools
from typing import Any

from bench.figures import Figure, Findings, Goal, MissingError, equal
from trackside.contracts.fleet import Device, WorkerJoined
from trackside.contracts.message import Envelope, Event, Record
from trackside.contracts.resources import Needs, Resources
from trackside.contracts.tasks import (
    AttemptEnd,
    AttemptEnded,
    Reservation,
    TaskAccepted,
    TaskAssigned,
    TaskReturned,
    TaskSubmitted,
)
from trackside.domain import fleet, task_events
from trackside.domain.fleet import Fleet
from trackside.domain.task import Task
from trackside.eventlog.clock import monotonic_s
from trackside.scheduler import decide
from trackside.scheduler.actions import Assign, Recall
from trackside.scheduler.cluster_state import ClusterState, SchedulingPolicy
from trackside.scheduler.planner import Planner

GIB = 1024**3
DEVICES_EACH = 8
ENDS_A_TURN = 10
TASK_TYPES = ("digits", "faces", "words", "noise")
START_MS = 1_700_000_000_000


class Hall:
    """A fleet of GPUs and CPU slots, tasks of all kinds, and the scheduler's pure parts on top."""

    def __init__(self, devices: int, look_ahead: int) -> None:
        self.cluster = ClusterState(SchedulingPolicy(look_ahead=look_ahead))
        self.planner = Planner(self.cluster)
        self.now_ms = START_MS
        self.seconds = 0.0
        self.running: dict[str, Task] = {}
        self._envelopes = {role: _envelope(role) for role in ("worker", "scheduler", "dispatcher")}
        self._offsets = itertools.count()
        self._fleet = Fleet()
        self.submitted = self.ended = self.moved = 0
        for number in range(devices // DEVICES_EACH):
            fleet.evolve(self._fleet, self._record(_worker(number), "worker"))
        self.cluster.hosts.sync_fleet(self._fleet, lambda worker: not worker.gone, [])

    def submit(self, count: int) -> None:
        """Has tasks wait: 20 streams, 4 types, 10 priorities, five ways to ask for memory and devices."""
        for _ in range(count):
            number = self.submitted
            self.submitted += 1
            event = TaskSubmitted(
                task_id=f"t-{number}",
                task_type=TASK_TYPES[number % 4],
                parameters={},
                needs=Needs(priority=number * 7 % 10, resources=_RESOURCES[number % 5]),
            )
            task = task_events.submitted(event, self._record(event, "dispatcher"))
            began = monotonic_s()
            self.cluster.update(f"stream-{number % 20}", task)
            self.seconds += monotonic_s() - began

    def turn(self) -> list[tuple[Task, Event]]:
        """Lets the scheduler decide: gives what it places, with the events; what it asks back comes back."""
        self.now_ms += 1
        began = monotonic_s()
        planned = self.planner.plan(self.now_ms, _never)
        actions = [(action, decide.proposal_of(action, 0).events[0]) for action in planned]
        self.seconds += monotonic_s() - began
        self.moved = len(actions)
        for action, event in actions:
            if isinstance(action, Recall):
                self.fold(action.task, event, "scheduler")
                self.fold(action.task, TaskReturned(**_token(action.task)), "worker")
                del self.running[action.task.task_id]
        return [(action.task, event) for action, event in actions if isinstance(action, Assign)]

    def take(self, actions: list[tuple[Task, Event]]) -> None:
        """Folds what was decided."""
        for task, event in actions:
            self.fold(task, event, "scheduler")
            self.running[task.task_id] = task

    def fold(self, task: Task, event: Event, role: str) -> None:
        """Folds an event of a task."""
        task_events.evolve(task, self._record(event, role))
        began = monotonic_s()
        self.cluster.update(self.cluster.stream_of[task.task_id], task)
        self.seconds += monotonic_s() - began

    def end(self, task: Task) -> None:
        """Has a worker end a task at once."""
        known = _token(task)
        if task.attempt.accepted_ms == 0:
            self.fold(task, TaskAccepted(**known), "worker")
        self.ended += 1
        self.fold(task, AttemptEnded(**known, end=AttemptEnd.FINISHED), "worker")

    def _record(self, event: Event, role: str) -> Record:
        return Record("events", 0, next(self._offsets), self.now_ms, self._envelopes[role], event)


def _token(task: Task) -> dict[str, Any]:
    """Gives the fields that name a task's placement."""
    assert task.place is not None
    return {
        "task_id": task.task_id,
        "attempt": task.attempt.number,
        "placement": task.attempt.placement,
        "incarnation": task.place.incarnation,
    }


def measured(devices: int, queued: int, decisions: int) -> Findings:
    """Measures decisions a second while tasks end and others take their places, and turns without any."""
    ceiling = _ceiling(queued, decisions)
    figures, counted = [], []
    for look_ahead in (0, 1):
        hall = Hall(devices, look_ahead)
        _fill(hall, queued)
        idle_ms = _idle_ms(hall)
        rate = decisions / _seconds(hall, queued, decisions)
        what = "scheduling, look-ahead" if look_ahead else "scheduling decisions"
        figures.append(Figure("-", what, rate, "/s", ceiling, "pop, make events", Goal(1_000, 5_000)))
        figures.append(Figure("-", "a turn with nothing free", idle_ms, "ms"))
        counted.append(_conserved(hall))
    return Findings(figures, counted)


def _conserved(hall: Hall) -> str:
    """Gives the count of tasks that were submitted: each waits, has a place, or has ended."""
    cluster = hall.cluster
    there = len(cluster.waiting) + len(cluster.placed) + hall.ended
    return equal("tasks waiting, placed or ended", there, hall.submitted)


def _fill(hall: Hall, queued: int) -> None:
    """Fills all devices, and has that many tasks wait for one."""
    hall.submit(queued)
    while True:
        actions = hall.turn()
        hall.take(actions)
        hall.submit(queued - len(hall.cluster.waiting))
        if not hall.moved:
            return


def _idle_ms(hall: Hall) -> float:
    """Gives the ms of a turn after a task has come that fits nowhere, as all that wait."""
    turns = 200
    began = monotonic_s()
    for _ in range(turns):
        hall.turn()
    return (monotonic_s() - began) / turns * 1000


def _seconds(hall: Hall, queued: int, decisions: int) -> float:
    """Gives the seconds of the scheduler's own work for that many placements: plans, and following the log.

    What workers and the dispatcher do in between isn't counted.
    """
    hall.seconds = 0.0
    placed = 0
    while placed < decisions:
        for task_id in list(itertools.islice(hall.running, ENDS_A_TURN)):
            hall.end(hall.running.pop(task_id))
        actions = hall.turn()
        hall.take(actions)
        hall.submit(queued - len(hall.cluster.waiting))
        if not (actions or hall.running):
            raise MissingError(f"{len(hall.cluster.waiting)} tasks wait, nothing runs, none was placed")
        placed += len(actions)
    return hall.seconds * decisions / placed


def _ceiling(queued: int, decisions: int) -> float:
    """Gives how many events a second a loop makes that pops a heap and asks nothing."""
    heap = [(-(number * 7 % 10), number) for number in range(queued)]
    heapq.heapify(heap)
    began = monotonic_s()
    for number in range(decisions):
        priority, first = heapq.heapreplace(heap, (-(number * 7 % 10), queued + number))
        TaskAssigned(
            task_id=f"t-{first}",
            attempt=1,
            placement=1,
            worker_id=f"w-{priority}",
            incarnation="i",
            device_ids=["gpu-0"],
            reserved=Reservation(memory_bytes=GIB, cuda_memory_bytes=GIB, estimated_by="task"),
            seen=0,
        )
    return decisions / (monotonic_s() - began)


def _worker(number: int) -> WorkerJoined:
    """Gives a worker with four GPUs and four CPU slots."""
    half = DEVICES_EACH // 2
    gpus = [
        Device(device_id=f"gpu-{at}", kind="gpu", name="gpu", memory_bytes=24 * GIB, index=at)
        for at in range(half)
    ]
    slots = [
        Device(device_id=f"cpu-{at}", kind="cpu", name="slot", memory_bytes=16 * GIB) for at in range(half)
    ]
    return WorkerJoined(
        worker_id=f"w-{number}",
        incarnation=f"i-{number}",
        host=f"host-{number}",
        devices=[*gpus, *slots],
        task_types=list(TASK_TYPES),
        queues=["default"],
        after={},
        memory_bytes=128 * GIB,
    )


def _envelope(role: str) -> Envelope:
    return Envelope({"ce_source": f"trackside/{role}/bench".encode()})


def _never(_: str) -> bool:
    return False


_RESOURCES = (
    Resources(),
    Resources(kind="cpu", estimate_memory=GIB),
    Resources(kind="gpu", estimate_memory=2 * GIB, estimate_cuda_memory=7 * GIB),
    Resources(kind="gpu", estimate_cuda_memory=20 * GIB),
    Resources(kind="gpu", devices=2, estimate_cuda_memory=10 * GIB),
)
