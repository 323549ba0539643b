"""Runs the scheduler's decisions without processes: a log, workers and a clock that a test drives.

Every action is folded as its event, and must be applied.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

from tests.unit.domain.given import FIRST_MS, received, record_of
from tests.unit.scheduler.given import GIB, policy
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.artifacts import ArtifactReference
from trackside.contracts.fleet import (
    Device,
    DeviceReading,
    NeighbourUse,
    RunningPlacement,
    WorkerHeartbeat,
    WorkerJoined,
    WorkerLost,
)
from trackside.contracts.message import Event
from trackside.contracts.resources import Needs, Resources
from trackside.contracts.tasks import (
    AttemptEnd,
    AttemptEnded,
    Reservation,
    TaskAccepted,
    TaskRefused,
    TaskReturned,
    TaskStatus,
    TaskStatusChanged,
    TaskSubmitted,
)
from trackside.domain import fleet
from trackside.domain.fleet import Fleet
from trackside.domain.outcome import Outcome
from trackside.domain.streams import Streams
from trackside.domain.task import Task
from trackside.scheduler import decide
from trackside.scheduler.actions import Action, Assign, MarkUnschedulable, Preempt, Recall
from trackside.scheduler.cluster_state import ClusterState, SchedulingPolicy
from trackside.scheduler.planner import Planner


class SchedulerHarness:
    """Workers, tasks and the scheduler's pure parts; `actions` are those of the last pass."""

    def __init__(self, chosen: SchedulingPolicy | None = None) -> None:
        self.streams = Streams(AGGREGATES)
        self.fleet = Fleet()
        self.cluster = ClusterState(chosen or policy())
        self.planner = Planner(self.cluster)
        self.now_ms = FIRST_MS
        self.actions: list[Action] = []
        self.busy: set[str] = set()
        self.drained: dict[str, frozenset[str]] = {}
        self._offset = 0

    def fold(self, event: Event, stream: str = "s", role: str = "") -> Outcome:
        record = replace(record_of(event, self._offset, role, stream), append_time_ms=self.now_ms)
        self._offset += 1
        found, outcome = self.streams.fold(record)
        if outcome is Outcome.APPLIED:
            self.cluster.update(stream, found.tasks[getattr(event, "task_id")])  # noqa: B009
        return outcome

    def fold_fleet(self, event: Event) -> None:
        record = replace(record_of(event, self._offset), append_time_ms=self.now_ms)
        self._offset += 1
        assert fleet.evolve(self.fleet, record) is Outcome.APPLIED
        self.sync_hosts()

    def lose(self, worker: str) -> None:
        """Folds that a worker is lost."""
        incarnation = self.fleet.workers[worker].incarnation
        self.fold_fleet(WorkerLost(worker_id=worker, incarnation=incarnation, silent_ms=11_000))

    def end_lost(self) -> None:
        """Folds the ends of attempts that are lost."""
        for task, lost in list(decide.lost_attempts(self.cluster, self.fleet, {})):
            self.fold(lost.events[0], self.stream_of(task.task_id), "scheduler")

    def sync_hosts(self) -> None:
        """Updates the hosts from the fleet and from what is drained."""
        bookings = list(self.cluster.bookings.values())
        self.cluster.hosts.sync_fleet(self.fleet, lambda worker: not worker.gone, bookings, self.drained)

    def drain(self, worker: str, *devices: str) -> None:
        self.drained[worker] = frozenset(devices)
        self.sync_hosts()

    def join_worker(
        self,
        name: str = "w1",
        cpus: int = 0,
        gpus: tuple[float, ...] = (),
        memory: float = 0,
        max_tasks: int = 0,
        types: tuple[str, ...] = ("digits",),
        queues: tuple[str, ...] = ("default",),
        incarnation: str = "",
        pool: str = "",
        uuids: tuple[str, ...] = (),
        limits: dict[str, float] | None = None,
        cuda_limits: dict[str, float] | None = None,
        credentials: tuple[str, ...] = (),
    ) -> None:
        """Folds the join of a worker; memory in GiB, `limits` by task type. GPUs may have uuids."""
        share = int(memory * GIB) // max(1, cpus)
        devices = [
            Device(
                device_id=f"gpu-{at}",
                kind="gpu",
                name="gpu",
                memory_bytes=int(size * GIB),
                index=at,
                uuid=uuids[at] if uuids else "",
            )
            for at, size in enumerate(gpus)
        ]
        devices += [
            Device(device_id=f"cpu-{at}", kind="cpu", name="slot", memory_bytes=share) for at in range(cpus)
        ]
        joined = WorkerJoined(
            worker_id=name,
            incarnation=incarnation or f"{name}-{self._offset}",
            host=name,
            devices=devices,
            task_types=list(types),
            queues=list(queues),
            after={},
            memory_bytes=int(memory * GIB),
            max_tasks=max_tasks,
            memory_pool=pool,
            max_memory_bytes=_in_bytes(limits or {}),
            max_cuda_memory_bytes=_in_bytes(cuda_limits or {}),
            credentials=list(credentials),
        )
        self.fold_fleet(joined)

    def submit_each(self, task_ids: Iterable[str], **options: Any) -> None:
        for task_id in task_ids:
            self.submit(task_id, **options)

    def place(self, task_id: str, stream: str = "s", **options: Any) -> None:
        self.submit(task_id, stream, **options)
        self.run_pass()

    def assign(self, task_id: str, **options: Any) -> list[tuple[str, str]]:
        """Submits a task, and returns the assignments of a pass."""
        self.submit(task_id, **options)
        return self.assignments()

    def begin(self, task_id: str, **options: Any) -> None:
        """Submits a task, places it, and has it train."""
        self.place(task_id, **options)
        self.accept(task_id, TaskStatus.TRAINING)

    def reserved(self, task_id: str) -> Reservation:
        """Returns what is reserved for a task."""
        return self.task(task_id).attempt.reserved

    def reserved_bytes(self, task_id: str) -> tuple[int, int]:
        """Returns what is reserved of the host and of each device for a task."""
        return self.reserved(task_id).memory_bytes, self.reserved(task_id).cuda_memory_bytes

    def submit(
        self,
        task_id: str,
        stream: str = "s",
        memory: float | None = None,
        cuda: float | None = None,
        task_type: str = "digits",
        needs: dict[str, Any] | None = None,
        estimated_by: Literal["task", "group"] = "task",
        inputs: dict[str, ArtifactReference] | None = None,
        **resources: Any,
    ) -> Task:
        """Submits a task; memory in GiB."""
        if memory is not None:
            resources["estimate_memory"] = int(memory * GIB)
        if cuda is not None:
            resources["estimate_cuda_memory"] = int(cuda * GIB)
        if stream not in self.streams.by_id:
            record = replace(record_of(received(), self._offset, stream=stream), append_time_ms=self.now_ms)
            self._offset += 1
            self.streams.fold(record)
        asked = Needs(resources=Resources(**resources), **(needs or {}))
        submitted = TaskSubmitted(
            task_id=task_id,
            task_type=task_type,
            parameters={},
            needs=asked,
            estimated_by=estimated_by,
            inputs=inputs or {},
        )
        assert self.fold(submitted, stream) is Outcome.APPLIED
        return self.task(task_id)

    def task(self, task_id: str) -> Task:
        return next(
            stream.tasks[task_id] for stream in self.streams.by_id.values() if task_id in stream.tasks
        )

    def stream_of(self, task_id: str) -> str:
        return next(name for name, stream in self.streams.by_id.items() if task_id in stream.tasks)

    def run_pass(self, after_s: float = 0.0, write: bool = True) -> list[Action]:
        """Advances the time and runs a scheduling pass; folds its events if `write`; returns its actions."""
        self.now_ms += int(after_s * 1000)
        self.actions = self.planner.plan(self.now_ms, lambda stream: stream in self.busy)
        if write:
            for action in self.actions:
                [event] = decide.proposal_of(action, self.fleet.position).events
                stream = self.stream_of(action.task.task_id)
                assert self.fold(event, stream, "scheduler") is Outcome.APPLIED, event
        return self.actions

    def assignments(self, after_s: float = 0.0) -> list[tuple[str, str]]:
        """Runs a pass; returns its assignments in order, as (task, "worker/device+device")."""
        return [
            (action.task.task_id, self.place_name(action))
            for action in self.run_pass(after_s)
            if isinstance(action, Assign) and not action.behind
        ]

    @staticmethod
    def place_name(action: Assign) -> str:
        """Returns the devices of an assignment, as "worker/device+device"."""
        return f"{action.candidate.host.worker.worker_id}/{'+'.join(action.candidate.device_ids)}"

    def placed_behind(self) -> list[tuple[str, str]]:
        """Returns which tasks the last pass placed after running ones, as (task, place)."""
        return [
            (action.task.task_id, self.place_name(action))
            for action in self.actions
            if isinstance(action, Assign) and action.behind
        ]

    def preempted(self) -> list[tuple[str, str]]:
        """Returns which tasks the last pass preempted, as (task, for which task)."""
        return [(action.task.task_id, action.by) for action in self.actions if isinstance(action, Preempt)]

    def recalled(self) -> list[str]:
        return [action.task.task_id for action in self.actions if isinstance(action, Recall)]

    def unschedulable(self) -> dict[str, str]:
        """Returns the reasons of tasks that the last pass marked as unschedulable."""
        return {
            action.task.task_id: action.message
            for action in self.actions
            if isinstance(action, MarkUnschedulable)
        }

    def placement_fields(self, task_id: str) -> dict[str, Any]:
        task = self.task(task_id)
        assert task.place is not None
        return {
            "task_id": task_id,
            "attempt": task.attempt.number,
            "placement": task.attempt.placement,
            "incarnation": task.place.incarnation,
        }

    def accept(self, task_id: str, status: TaskStatus | None = None) -> None:
        """Folds that a worker accepted a task, and its status if one is given."""
        assert (
            self.fold(TaskAccepted(**self.placement_fields(task_id)), self.stream_of(task_id))
            is Outcome.APPLIED
        )
        if status is not None:
            self.report_status(task_id, status)

    def report_status(self, task_id: str, status: TaskStatus) -> None:
        self.fold(TaskStatusChanged(**self.placement_fields(task_id), status=status), self.stream_of(task_id))

    def end(self, task_id: str, end: AttemptEnd = AttemptEnd.FINISHED, **more: Any) -> None:
        role = "scheduler" if end is AttemptEnd.LOST else "worker"
        ended = AttemptEnded(**self.placement_fields(task_id), end=end, **{"memory_measure": "own", **more})
        assert self.fold(ended, self.stream_of(task_id), role) is Outcome.APPLIED

    def refuse(self, task_id: str, code: str = "out_of_memory", message: str = "no room") -> None:
        refused = TaskRefused(**self.placement_fields(task_id), code=code, message=message)
        assert self.fold(refused, self.stream_of(task_id)) is Outcome.APPLIED

    def return_task(self, task_id: str) -> None:
        assert (
            self.fold(TaskReturned(**self.placement_fields(task_id)), self.stream_of(task_id))
            is Outcome.APPLIED
        )

    def heartbeat(
        self,
        name: str = "w1",
        peaks: dict[str, tuple[float, float]] | None = None,
        foreign: dict[str, float] | None = None,
        use: dict[str, float] | None = None,
        available: float | None = None,
        cpu_percent: float | None = None,
        neighbours: tuple[NeighbourUse, ...] = (),
    ) -> None:
        """Applies a heartbeat; memory in GiB, `peaks` as (host, device) by task."""
        running = [
            RunningPlacement(
                stream="s",
                task_id=task_id,
                attempt=self.task(task_id).attempt.number,
                placement=self.task(task_id).attempt.placement,
                device_ids=self.task(task_id).attempt.device_ids,
                peak_memory_bytes=int(peak[0] * GIB),
                peak_cuda_memory_bytes=int(peak[1] * GIB),
            )
            for task_id, peak in (peaks or {}).items()
        ]
        devices = {*(foreign or {}), *(use or {})}
        readings = [
            DeviceReading(
                device_id=device_id,
                foreign_bytes=int((foreign or {}).get(device_id, 0) * GIB),
                utilisation=(use or {}).get(device_id),
            )
            for device_id in sorted(devices)
        ]
        beat = WorkerHeartbeat(
            worker_id=name,
            incarnation=self.fleet.workers[name].incarnation,
            running=running,
            devices=tuple(readings),
            available_bytes=None if available is None else int(available * GIB),
            cpu_percent=cpu_percent,
            neighbours=neighbours,
        )
        self.cluster.hosts.apply_heartbeat(beat)


def one_worker(chosen: SchedulingPolicy | None = None, **options: Any) -> SchedulerHarness:
    harness = SchedulerHarness(chosen)
    harness.join_worker(**options)
    return harness


def _in_bytes(by_type: dict[str, float]) -> dict[str, int]:
    return {name: int(size * GIB) for name, size in by_type.items()}
