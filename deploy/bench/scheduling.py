"""Scheduling decisions, compared with a loop that pops a heap and makes the same events."""

import heapq
import itertools
from typing import Any

from bench.measurements import Figure, Goal, Measurements, MissingError, check_count
from trackside.contracts.envelope.message import Envelope, Event, Record
from trackside.contracts.fleet.fleet import Device, WorkerJoined
from trackside.contracts.tasks.resources import Needs, Resources
from trackside.contracts.tasks.tasks import (
    AttemptEnd,
    AttemptEnded,
    Reservation,
    TaskAccepted,
    TaskAssigned,
    TaskReturned,
    TaskSubmitted,
)
from trackside.domain.fleet import fleet
from trackside.domain.fleet.fleet import Fleet
from trackside.domain.tasks import task_events
from trackside.domain.tasks.task import Task
from trackside.eventlog.clock import monotonic_s
from trackside.scheduler import decide
from trackside.scheduler.planning.actions import Assign, Recall
from trackside.scheduler.planning.cluster_state import ClusterState, SchedulingPolicy
from trackside.scheduler.planning.planner import Planner

GIB = 1024**3
DEVICES_PER_WORKER = 8
ENDS_PER_PASS = 10
TASK_TYPES = ("digits", "faces", "words", "noise")
START_MS = 1_700_000_000_000


class BenchCluster:
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
        for number in range(devices // DEVICES_PER_WORKER):
            fleet.evolve(self._fleet, self._record(_worker(number), "worker"))
        self.cluster.hosts.sync_fleet(self._fleet, lambda worker: not worker.gone, [])

    def submit(self, count: int) -> None:
        """Queues tasks: 20 streams, 4 types, 10 priorities, five ways to ask for memory and devices."""
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

    def run_pass(self) -> list[tuple[Task, Event]]:
        """Runs a pass; returns its assignments with their events. Recalled tasks are returned at once."""
        self.now_ms += 1
        began = monotonic_s()
        planned = self.planner.plan(self.now_ms, _never)
        actions = [(action, decide.proposal_of(action, 0).events[0]) for action in planned]
        self.seconds += monotonic_s() - began
        self.moved = len(actions)
        for action, event in actions:
            if isinstance(action, Recall):
                self.fold(action.task, event, "scheduler")
                self.fold(action.task, TaskReturned(**_placement_fields(action.task)), "worker")
                del self.running[action.task.task_id]
        return [(action.task, event) for action, event in actions if isinstance(action, Assign)]

    def take(self, actions: list[tuple[Task, Event]]) -> None:
        """Folds assignments."""
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
        """Folds the acceptance and the end of a task."""
        known = _placement_fields(task)
        if task.attempt.accepted_ms == 0:
            self.fold(task, TaskAccepted(**known), "worker")
        self.ended += 1
        self.fold(task, AttemptEnded(**known, end=AttemptEnd.FINISHED), "worker")

    def _record(self, event: Event, role: str) -> Record:
        return Record("events", 0, next(self._offsets), self.now_ms, self._envelopes[role], event)


def _placement_fields(task: Task) -> dict[str, Any]:
    """Returns the fields that name a task's placement."""
    assert task.place is not None
    return {
        "task_id": task.task_id,
        "attempt": task.attempt.number,
        "placement": task.attempt.placement,
        "incarnation": task.place.incarnation,
    }


def measure(devices: int, queued: int, decisions: int) -> Measurements:
    """Measures decisions a second while tasks end and others take their places, and passes without any."""
    ceiling = _ceiling(queued, decisions)
    figures, counted = [], []
    for look_ahead in (0, 1, 8):
        bench = BenchCluster(devices, look_ahead)
        _fill(bench, queued)
        idle_ms = _idle_ms(bench)
        rate = decisions / _seconds(bench, queued, decisions)
        what = f"scheduling, look-ahead {look_ahead}" if look_ahead else "scheduling decisions"
        figures.append(Figure("-", what, rate, "/s", ceiling, "pop, make events", Goal(1_000, 5_000)))
        figures.append(Figure("-", "a turn with nothing free", idle_ms, "ms"))
        counted.append(_conserved(bench))
    return Measurements(figures, counted)


def _conserved(bench: BenchCluster) -> str:
    """Checks that each submitted task waits, is placed or has ended; returns their count."""
    cluster = bench.cluster
    there = len(cluster.waiting) + len(cluster.placed) + bench.ended
    return check_count("tasks waiting, placed or ended", there, bench.submitted)


def _fill(bench: BenchCluster, queued: int) -> None:
    """Fills all devices, and queues that many tasks."""
    bench.submit(queued)
    while True:
        actions = bench.run_pass()
        bench.take(actions)
        bench.submit(queued - len(bench.cluster.waiting))
        if not bench.moved:
            return


def _idle_ms(bench: BenchCluster) -> float:
    """Returns the ms of a pass when no queued task fits."""
    passes = 200
    began = monotonic_s()
    for _ in range(passes):
        bench.run_pass()
    return (monotonic_s() - began) / passes * 1000


def _seconds(bench: BenchCluster, queued: int, decisions: int) -> float:
    """Returns the seconds that the scheduler spends on that many placements: passes and folding.

    What workers and the dispatcher do in between isn't counted.
    """
    bench.seconds = 0.0
    placed = 0
    while placed < decisions:
        for task_id in list(itertools.islice(bench.running, ENDS_PER_PASS)):
            bench.end(bench.running.pop(task_id))
        actions = bench.run_pass()
        bench.take(actions)
        bench.submit(queued - len(bench.cluster.waiting))
        if not (actions or bench.running):
            raise MissingError(f"{len(bench.cluster.waiting)} tasks wait, nothing runs, none was placed")
        placed += len(actions)
    return bench.seconds * decisions / placed


def _ceiling(queued: int, decisions: int) -> float:
    """Returns how many events a second a loop makes that only pops a heap."""
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
    """Returns a worker with four GPUs and four CPU slots."""
    half = DEVICES_PER_WORKER // 2
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
