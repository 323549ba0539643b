"""Random mixes of tasks on random fleets, until all is quiet: what must hold at every step and at the end."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.unit.scheduler.hall import GIB, Hall, policy
from trackside.contracts.fleet import WorkerLost
from trackside.contracts.tasks import AttemptEnd, TaskStatus
from trackside.domain.task import Task, TaskState
from trackside.scheduler import decide
from trackside.scheduler.placement import PlacementQuery, scan_free

pytestmark = pytest.mark.thorough

TICKS = 3_000
RETRY = {"lost": 100, "oom_host": 100, "oom_device": 100}


@dataclass
class Floor:
    """What workers do: they run what they hold as soon as it fits, obey, run out of memory and die."""

    hall: Hall
    chance: random.Random
    ends_at: dict[str, int] = field(default_factory=dict)
    truth: dict[str, tuple[float, float]] = field(default_factory=dict)
    down: dict[str, int] = field(default_factory=dict)
    crews: dict[str, dict[str, Any]] = field(default_factory=dict)
    tick: int = 0

    def step(self) -> None:
        """Lets one second pass."""
        self.tick += 1
        hall = self.hall
        placed = [task for task in self.tasks() if task.place is not None]
        self.chance.shuffle(placed)
        for task in placed:
            self._work(task)
        for name in [name for name, until in self.down.items() if until <= self.tick]:
            del self.down[name]
            hall.join(name, **self.crews[name])
        for task, lost in list(decide.lost_attempts(hall.cluster, hall.fleet, {})):
            hall.tell(lost.events[0], hall.stream_of(task.task_id), "scheduler")

    def tasks(self) -> Iterator[Task]:
        """Gives all tasks."""
        for stream in self.hall.streams.by_id.values():
            yield from stream.tasks.values()

    def _work(self, task: Task) -> None:
        hall, attempt = self.hall, task.attempt
        if task.place is None or not hall.fleet.current(task.place.worker_id, task.place.incarnation):
            return
        if attempt.stopping is not None:
            if self.chance.random() < 0.5:
                hall.end(task.task_id, AttemptEnd.PREEMPTED)
        elif task.state is TaskState.PLACED:
            if attempt.behind and hall.cluster.is_waiting(task.task_id):
                if attempt.recalled:
                    hall.give_back(task.task_id)
                elif self.chance.random() < 0.1:
                    hall.accept(task.task_id, TaskStatus.LOADING)
            elif self.chance.random() < 0.8:
                hall.accept(task.task_id, TaskStatus.TRAINING)
                self.ends_at[task.task_id] = self.tick + self.chance.randint(0, 8)
        elif attempt.status < TaskStatus.TRAINING:
            if not hall.cluster.is_waiting(task.task_id):
                hall.status(task.task_id, TaskStatus.TRAINING)
                self.ends_at[task.task_id] = self.tick + self.chance.randint(0, 8)
        elif self.tick >= self.ends_at[task.task_id]:
            self._end(task)

    def _end(self, task: Task) -> None:
        memory, cuda = self.truth[task.task_id]
        reserved = task.attempt.reserved
        on_gpu = task.attempt.device_ids[0].startswith("gpu")
        peaks: dict[str, Any] = {
            "peak_memory_bytes": int(memory * GIB),
            "peak_cuda_memory_bytes": int(cuda * GIB) * on_gpu,
        }
        if on_gpu and reserved.cuda_memory_bytes < cuda * GIB and self.chance.random() < 0.5:
            self.hall.end(task.task_id, AttemptEnd.OOM_DEVICE, **peaks)
        else:
            self.hall.end(task.task_id, **peaks)


def never_over_capacity(hall: Hall) -> None:
    """Adds up what is reserved, by itself."""
    for worker in hall.fleet.workers.values():
        here = [
            task
            for task in hall.cluster.placed.values()
            if task.place is not None
            and (task.place.worker_id, task.place.incarnation) == (worker.worker_id, worker.incarnation)
        ]
        memory = sum(task.attempt.reserved.memory_bytes for task in here)
        assert not worker.memory_bytes or memory <= worker.memory_bytes
        assert not worker.max_tasks or len(here) <= worker.max_tasks
        for device in worker.devices.values():
            on = [task for task in here if device.device_id in task.attempt.device_ids]
            waiting = [task for task in on if hall.cluster.is_waiting(task.task_id)]
            running = [task for task in on if task not in waiting]
            assert len(waiting) <= 1
            if device.kind == "cpu" or any(task.needs.resources.whole_device for task in running):
                assert len(running) <= 1
            if device.kind == "gpu":
                used = sum(task.attempt.reserved.cuda_memory_bytes for task in running)
                assert used <= device.memory_bytes


def never_idle(hall: Hall) -> None:
    """Looks at every host for every line: nothing may fit, unless a place is kept for someone."""
    cluster = hall.cluster
    kept = (
        any(scheduling_class.reserved_worker_id for scheduling_class in cluster.waiting.classes.values())
        or hall.planner._recall_nominations
    )
    if kept or hall.actions:
        return
    for scheduling_class in cluster.waiting.classes.values():
        limit = cluster.policy.queue_limits.get(scheduling_class.requirements.queue)
        if (
            not scheduling_class.size
            or scheduling_class.unschedulable_reason
            or (limit is not None and cluster.running[scheduling_class.requirements.queue] >= limit)
        ):
            continue
        query = PlacementQuery(
            scheduling_class.requirements,
            cluster.demand(scheduling_class),
            cluster.policy.placement_rules,
            lambda device: True,
        )
        scan = scan_free(cluster.hosts.open, query)
        assert scan.best() is None, scheduling_class.requirements


def plausible(crew: dict[str, Any]) -> dict[str, Any]:
    """Gives a crew at least one device."""
    return crew if crew["cpus"] or crew["gpus"] else {**crew, "cpus": 1}


def possible(task: dict[str, Any]) -> dict[str, Any]:
    """Leaves out what no submission may say: a fixed device is one device."""
    return {name: value for name, value in task.items() if name != "devices" or not task.get("device")}


crews = st.fixed_dictionaries(
    {
        "cpus": st.integers(0, 3),
        "gpus": st.lists(st.sampled_from([4.0, 8.0, 24.0]), max_size=3).map(tuple),
        "memory": st.sampled_from([0, 4.0, 16.0]),
        "max_tasks": st.sampled_from([0, 0, 1, 3]),
        "queues": st.sampled_from([("default",), ("default", "night")]),
    }
).map(plausible)

needs = st.fixed_dictionaries({"priority": st.integers(0, 9), "preempt": st.booleans()})
asked = st.fixed_dictionaries(
    {"needs": needs},
    optional={
        "memory": st.sampled_from([1, 3, 12, 100]),
        "cuda": st.sampled_from([1, 3, 7, 20, 80]),
        "devices": st.integers(1, 3),
        "whole_device": st.booleans(),
        "device": st.sampled_from(["", "", "", "gpu-0", "cuda:1", "w1/gpu-0", "cpu-1", "gpu-9"]),
    },
).map(possible)

mixes = st.lists(
    st.tuples(st.sampled_from(["s", "t", "u"]), st.sampled_from(["default", "night"]), asked),
    min_size=10,
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(
    fleet=st.lists(crews, min_size=1, max_size=3),
    mix=mixes,
    look_ahead=st.sampled_from([0, 1]),
    limit=st.sampled_from([None, 1, 3]),
    seed=st.integers(0, 2**32),
)
def test_t18_t19_no_mix_of_tasks_over_commits_idles_starves_or_locks(
    fleet: list[dict[str, Any]], mix: list[Any], look_ahead: int, limit: int | None, seed: int
) -> None:
    chance = random.Random(seed)
    limits = {} if limit is None else {"default": limit}
    hall = Hall(policy(look_ahead=look_ahead, hold_after_s=5, ageing_s=20, limits=limits))
    floor = Floor(hall, chance)
    for at, crew in enumerate(fleet):
        floor.crews[f"w{at}"] = crew
        hall.join(f"w{at}", **crew)
    for at, (stream, queue, task) in enumerate(mix):
        more = {**task, "needs": {**task["needs"], "queue": queue, "retry": RETRY}}
        hall.submit(f"t{at}", stream, **more)
        floor.truth[f"t{at}"] = (chance.choice([0.5, 2.0]), chance.choice([0.5, 3.0]))
        if chance.random() < 0.3:
            turn(floor)
    turn(floor)
    while floor.tick < TICKS and not is_quiet(hall):
        if floor.tick < 60 and chance.random() < 0.03:
            lose_one(floor)
        turn(floor)
    assert floor.tick < TICKS, [task for task in floor.tasks() if task.state is not TaskState.ENDED]
    for task in floor.tasks():
        if task.state is not TaskState.ENDED:
            assert task.unschedulable
    event(f"preempted: {any(past.end == 'preempted' for task in floor.tasks() for past in past_of(task))}")
    event(f"returned: {any(past.end == 'returned' for task in floor.tasks() for past in past_of(task))}")
    event(f"unschedulable: {any(task.unschedulable for task in floor.tasks())}")


def past_of(task: Task) -> list[Any]:
    """Gives all placements of a task that came to nothing."""
    return [past for attempt in task.attempts for past in attempt.past]


def turn(floor: Floor) -> None:
    """Lets workers work for a second, and the scheduler decide until it has nothing more to say."""
    hall = floor.hall
    floor.step()
    hall.busy = {name for name in hall.streams.by_id if floor.chance.random() < 0.1}
    hall.turn(after_s=1)
    never_over_capacity(hall)
    hall.busy = set()
    for _ in range(5):
        if not hall.turn():
            break
    never_over_capacity(hall)
    never_idle(hall)


def is_quiet(hall: Hall) -> bool:
    """Says whether nothing runs, and nothing that could ever run waits."""
    waits = any(
        scheduling_class.size and not scheduling_class.unschedulable_reason
        for scheduling_class in hall.cluster.waiting.classes.values()
    )
    return (
        not hall.cluster.placed and not waits and not hall.cluster.backoff_timers.due_ms and not hall.actions
    )


def lose_one(floor: Floor) -> None:
    """Loses a worker, which will be back."""
    name = floor.chance.choice(sorted(floor.crews))
    if name in floor.down:
        return
    worker = floor.hall.fleet.workers[name]
    floor.down[name] = floor.tick + floor.chance.randint(1, 10)
    floor.hall.tell_fleet(WorkerLost(worker_id=name, incarnation=worker.incarnation, silent_ms=11_000))
