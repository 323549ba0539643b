"""Random tasks on random fleets, run until nothing is left: what must hold at every step and at the end."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.scheduler.given import GIB, policy
from tests.unit.scheduler.harness import SchedulerHarness
from trackside.contracts.envelope.memory import MAX_BYTES
from trackside.contracts.tasks.tasks import AttemptEnd, TaskStatus
from trackside.domain.tasks.task import Task, TaskState
from trackside.scheduler.placing.placement import PlacementQuery, scan_free

pytestmark = pytest.mark.thorough

TICKS = 3_000
RETRY = {"lost": 100, "oom_host": 100, "oom_device": 100}


@dataclass
class SimulatedWorkers:
    """Workers that run their tasks as soon as they fit, execute commands, run out of memory and are lost."""

    harness: SchedulerHarness
    rng: random.Random
    ends_at: dict[str, int] = field(default_factory=dict)
    actual_use: dict[str, tuple[float, float]] = field(default_factory=dict)
    down: dict[str, int] = field(default_factory=dict)
    worker_options: dict[str, dict[str, Any]] = field(default_factory=dict)
    tick: int = 0

    def step(self) -> None:
        self.tick += 1
        harness = self.harness
        placed = [task for task in self.tasks() if task.place is not None]
        self.rng.shuffle(placed)
        for task in placed:
            self._work(task)
        for name in [name for name, until in self.down.items() if until <= self.tick]:
            del self.down[name]
            harness.join_worker(name, **self.worker_options[name])
        harness.end_lost()

    def tasks(self) -> Iterator[Task]:
        for stream in self.harness.streams.by_id.values():
            yield from stream.tasks.values()

    def _work(self, task: Task) -> None:
        harness, attempt = self.harness, task.attempt
        if task.place is None or not harness.fleet.current(task.place.worker_id, task.place.incarnation):
            return
        if attempt.stopping is not None:
            if self.rng.random() < 0.5:
                harness.end(task.task_id, AttemptEnd.PREEMPTED)
        elif task.state is TaskState.PLACED:
            if attempt.behind and harness.cluster.is_waiting(task.task_id):
                if attempt.recalled:
                    harness.return_task(task.task_id)
                elif self.rng.random() < 0.1:
                    harness.accept(task.task_id, TaskStatus.LOADING)
            elif self.rng.random() < 0.8:
                harness.accept(task.task_id, TaskStatus.TRAINING)
                self.ends_at[task.task_id] = self.tick + self.rng.randint(0, 8)
        elif attempt.status < TaskStatus.TRAINING:
            if not harness.cluster.is_waiting(task.task_id):
                harness.report_status(task.task_id, TaskStatus.TRAINING)
                self.ends_at[task.task_id] = self.tick + self.rng.randint(0, 8)
        elif self.tick >= self.ends_at[task.task_id]:
            self._end(task)

    def _end(self, task: Task) -> None:
        memory, cuda = self.actual_use[task.task_id]
        reserved = task.attempt.reserved
        on_gpu = task.attempt.device_ids[0].startswith("gpu")
        peaks: Any = {
            "peak_memory_bytes": int(memory * GIB),
            "peak_cuda_memory_bytes": int(cuda * GIB) * on_gpu,
        }
        limit = self.harness.fleet.workers[task.attempt.worker_id].max_memory_bytes.get(task.task_type, 0)
        if 0 < limit < memory * GIB:
            said: dict[str, Any] = {"limit": "max_memory", "limit_bytes": limit, "peak_memory_bytes": limit}
            self.harness.end(task.task_id, AttemptEnd.OOM_HOST, **peaks | said)
        elif on_gpu and reserved.cuda_memory_bytes < cuda * GIB and self.rng.random() < 0.5:
            self.harness.end(task.task_id, AttemptEnd.OOM_DEVICE, **peaks)
        else:
            self.harness.end(task.task_id, **peaks)


def assert_fits(harness: SchedulerHarness, tasks: list[Task], most_bytes: int, alone: bool = False) -> None:
    waiting = [task for task in tasks if harness.cluster.is_waiting(task.task_id)]
    running = [task for task in tasks if task not in waiting]
    assert len(waiting) <= 1
    assert len(running) <= 1 or not (alone or any(task.needs.resources.whole_device for task in running))
    assert alone or sum(task.attempt.reserved.cuda_memory_bytes for task in running) <= most_bytes


def assert_within_capacity(harness: SchedulerHarness) -> None:
    """Adds up what is reserved, independently of the scheduler's books."""
    for worker in harness.fleet.workers.values():
        place = (worker.worker_id, worker.incarnation)
        placed = [(task, task.place) for task in harness.cluster.placed.values() if task.place is not None]
        on_worker = [task for task, where in placed if (where.worker_id, where.incarnation) == place]
        memory = sum(task.attempt.reserved.memory_bytes for task in on_worker)
        assert not worker.memory_bytes or memory <= worker.memory_bytes
        assert not worker.max_tasks or len(on_worker) <= worker.max_tasks
        for task in on_worker:
            reserved, size = task.attempt.reserved, MAX_BYTES
            assert reserved.memory_bytes <= worker.max_memory_bytes.get(task.task_type, size)
            assert reserved.cuda_memory_bytes <= worker.max_cuda_memory_bytes.get(task.task_type, size)
        for device in worker.devices.values():
            on_device = [task for task in on_worker if device.device_id in task.attempt.device_ids]
            assert_fits(harness, on_device, device.memory_bytes, alone=device.kind == "cpu")


def assert_shared_within_capacity(harness: SchedulerHarness) -> None:
    """Adds up what workers of one host reserve of its memory and of each GPU that they share."""
    pools, gpus = Counter[str](), dict[str, list[Task]]()
    total = {}
    for worker in harness.fleet.workers.values():
        for task in harness.cluster.placed.values():
            if task.place is None or task.place.incarnation != worker.incarnation:
                continue
            pools[worker.memory_pool] += task.attempt.reserved.memory_bytes
            total[worker.memory_pool] = worker.memory_bytes
            for device_id in task.attempt.device_ids:
                device = worker.devices[device_id]
                if device.uuid:
                    gpus.setdefault(device.uuid, []).append(task)
                    total[device.uuid] = device.memory_bytes
    assert all(reserved <= total[pool] for pool, reserved in pools.items() if pool)
    for uuid, tasks in gpus.items():
        assert_fits(harness, tasks, total[uuid])


def assert_nothing_fits(harness: SchedulerHarness) -> None:
    """Scans every host for every class: nothing may fit, unless a place is reserved."""
    cluster = harness.cluster
    classes = cluster.waiting.classes.values()
    is_reserved = any(each.reserved_worker_id for each in classes) or harness.planner._recall_nominations
    if is_reserved or harness.actions:
        return
    for each in classes:
        queue = each.requirements.queue
        limit = cluster.policy.queue_limits.get(queue, MAX_BYTES)
        if not each.size or each.unschedulable_reason or cluster.running[queue] >= limit:
            continue
        demand, rules = cluster.demand(each), cluster.policy.placement_rules
        query = PlacementQuery(each.requirements, demand, rules, lambda device: True)
        assert scan_free(cluster.hosts.open, query).best() is None, each.requirements


def with_a_device(options: dict[str, Any]) -> dict[str, Any]:
    return options if options["cpus"] or options["gpus"] else {**options, "cpus": 1}


def submittable(task: dict[str, Any]) -> dict[str, Any]:
    """Leaves out what no submission may have: a fixed device is one device."""
    return {name: value for name, value in task.items() if name != "devices" or not task.get("device")}


def on_one_host(options: dict[str, Any]) -> dict[str, Any]:
    """Returns a worker the memory and the GPUs that all workers of one host have."""
    if not options.pop("shares"):
        return options
    uuids = tuple(f"GPU-{at}-{size}" for at, size in enumerate(options["gpus"]))
    return {**options, "memory": 16.0, "pool": "host", "uuids": uuids}


worker_kinds = st.fixed_dictionaries(
    {
        "cpus": st.integers(0, 3),
        "gpus": st.lists(st.sampled_from([4.0, 8.0, 24.0]), max_size=3).map(tuple),
        "memory": st.sampled_from([0, 4.0, 16.0]),
        "max_tasks": st.sampled_from([0, 0, 1, 3]),
        "queues": st.sampled_from([("default",), ("default", "night")]),
        "shares": st.booleans(),
        "limits": st.sampled_from([{}, {}, {"digits": 1}, {"digits": 3}]),
        "cuda_limits": st.sampled_from([{}, {}, {"digits": 1}, {"digits": 7}]),
    }
)
worker_options = worker_kinds.map(with_a_device).map(on_one_host)

needs = st.fixed_dictionaries({"priority": st.integers(0, 9), "preempt": st.booleans()})
task_options = st.fixed_dictionaries(
    {"needs": needs},
    optional={
        "memory": st.sampled_from([1, 3, 12, 100]),
        "cuda": st.sampled_from([1, 3, 7, 20, 80]),
        "devices": st.integers(1, 3),
        "whole_device": st.booleans(),
        "device": st.sampled_from(["", "", "", "gpu-0", "cuda:1", "w1/gpu-0", "cpu-1", "gpu-9"]),
    },
).map(submittable)

queues = st.sampled_from(["default", "night"])
submission = st.tuples(st.sampled_from(["s", "t", "u"]), queues, task_options)
submission_lists = st.lists(submission, min_size=10, max_size=40)


@settings(max_examples=150, deadline=None)
@given(
    fleet=st.lists(worker_options, min_size=1, max_size=3),
    submissions=submission_lists,
    look_ahead=st.sampled_from([0, 1, 8]),
    limit=st.sampled_from([None, 1, 3]),
    seed=st.integers(0, 2**32),
)
def test_t18_t19_no_mix_of_tasks_over_commits_idles_starves_or_locks(
    fleet: list[dict[str, Any]], submissions: list[Any], look_ahead: int, limit: int | None, seed: int
) -> None:
    rng = random.Random(seed)
    limits = {} if limit is None else {"default": limit}
    harness = SchedulerHarness(policy(look_ahead=look_ahead, hold_after_s=5, ageing_s=20, limits=limits))
    workers = SimulatedWorkers(harness, rng)
    for at, options in enumerate(fleet):
        workers.worker_options[f"w{at}"] = options
        harness.join_worker(f"w{at}", **options)
    for at, (stream, queue, task) in enumerate(submissions):
        options = {**task, "needs": {**task["needs"], "queue": queue, "retry": RETRY}}
        harness.submit(f"t{at}", stream, **options)
        workers.actual_use[f"t{at}"] = (rng.choice([0.5, 2.0]), rng.choice([0.5, 3.0]))
        if rng.random() < 0.3:
            run_second(workers)
    run_second(workers)
    while workers.tick < TICKS and not is_quiet(harness):
        if workers.tick < 60 and rng.random() < 0.03:
            lose_a_worker(workers)
        run_second(workers)
    assert workers.tick < TICKS, [task for task in workers.tasks() if task.state is not TaskState.ENDED]
    for task in workers.tasks():
        if task.state is not TaskState.ENDED:
            assert task.unschedulable


def run_second(workers: SimulatedWorkers) -> None:
    harness = workers.harness
    workers.step()
    harness.busy = {name for name in harness.streams.by_id if workers.rng.random() < 0.1}
    harness.run_pass(after_s=1)
    assert_within_capacity(harness)
    harness.busy = set()
    for _ in range(5):
        if not harness.run_pass():
            break
    assert_within_capacity(harness)
    assert_shared_within_capacity(harness)
    assert_nothing_fits(harness)


def is_quiet(harness: SchedulerHarness) -> bool:
    cluster = harness.cluster
    waits = any(each.size and not each.unschedulable_reason for each in cluster.waiting.classes.values())
    return not (cluster.placed or waits or cluster.backoff_timers.due_ms or harness.actions)


def lose_a_worker(workers: SimulatedWorkers) -> None:
    name = workers.rng.choice(sorted(workers.worker_options))
    if name not in workers.down:
        workers.down[name] = workers.tick + workers.rng.randint(1, 10)
        workers.harness.lose(name)
