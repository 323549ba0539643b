"""A hall of workers by hand: a log that is told events, the board that follows it, and time that is set.

Every move of the scheduler is written and folded as its event: the log must find each one right.
"""

from dataclasses import replace
from typing import Any, Literal

from tests.unit.domain.given import FIRST_MS, received, record_of
from trackside.contracts.fleet import Device, DeviceReading, RunningPlacement, WorkerHeartbeat, WorkerJoined
from trackside.contracts.message import Event
from trackside.contracts.resources import Needs, Resources
from trackside.contracts.tasks import (
    AttemptEnd,
    AttemptEnded,
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
from trackside.scheduler.occupancy import AdmissionLimits
from trackside.scheduler.placement import PlacementRules
from trackside.scheduler.planner import Planner

GIB = 1024**3


def policy(
    order: str = "FIRST-FIT",
    look_ahead: int = 0,
    hold_after_s: float = 60,
    ageing_s: float = 600,
    limits: dict[str, int] | None = None,
    **admission: Any,
) -> SchedulingPolicy:
    """Gives what an operator has chosen; no look-ahead unless it is asked for."""
    return SchedulingPolicy(
        placement_rules=PlacementRules(AdmissionLimits(**admission), order),
        ageing_ms=int(ageing_s * 1000),
        hold_after_ms=int(hold_after_s * 1000),
        look_ahead=look_ahead,
        queue_limits=limits or {},
        default_bytes=(2 * GIB, 2 * GIB),
    )


class Hall:
    """Workers, tasks and the scheduler's pure parts; `moves` are those of the last turn."""

    def __init__(self, chosen: SchedulingPolicy | None = None) -> None:
        self.streams = Streams()
        self.fleet = Fleet()
        self.cluster = ClusterState(chosen or policy())
        self.planner = Planner(self.cluster)
        self.now_ms = FIRST_MS
        self.actions: list[Action] = []
        self.busy: set[str] = set()
        self.over: set[str] = set()
        self._offset = 0

    def tell(self, event: Event, stream: str = "s", role: str = "") -> Outcome:
        """Writes and folds an event of a stream."""
        record = replace(record_of(event, self._offset, role, stream), append_time_ms=self.now_ms)
        self._offset += 1
        found, outcome = self.streams.fold(record)
        if outcome is Outcome.APPLIED:
            self.cluster.update(stream, found.tasks[getattr(event, "task_id")])  # noqa: B009
        return outcome

    def tell_fleet(self, event: Event) -> None:
        """Writes and folds an event of the fleet."""
        record = replace(record_of(event, self._offset), append_time_ms=self.now_ms)
        self._offset += 1
        assert fleet.evolve(self.fleet, record) is Outcome.APPLIED
        bookings = list(self.cluster.bookings.values())
        self.cluster.hosts.sync_fleet(self.fleet, lambda worker: not worker.gone, bookings)

    def join(
        self,
        name: str = "w1",
        cpus: int = 0,
        gpus: tuple[float, ...] = (),
        memory: float = 0,
        max_tasks: int = 0,
        types: tuple[str, ...] = ("digits",),
        queues: tuple[str, ...] = ("default",),
        incarnation: str = "",
    ) -> None:
        """Has a worker join; memory in GiB."""
        share = int(memory * GIB) // max(1, cpus)
        devices = [
            Device(device_id=f"gpu-{at}", kind="gpu", name="gpu", memory_bytes=int(size * GIB), index=at)
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
        )
        self.tell_fleet(joined)

    def submit(
        self,
        task_id: str,
        stream: str = "s",
        memory: float | None = None,
        cuda: float | None = None,
        task_type: str = "digits",
        needs: dict[str, Any] | None = None,
        estimated_by: Literal["task", "group"] = "task",
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
            task_id=task_id, task_type=task_type, parameters={}, needs=asked, estimated_by=estimated_by
        )
        assert self.tell(submitted, stream) is Outcome.APPLIED
        return self.task(task_id)

    def task(self, task_id: str) -> Task:
        """Gives a task by its id."""
        return next(
            stream.tasks[task_id] for stream in self.streams.by_id.values() if task_id in stream.tasks
        )

    def stream_of(self, task_id: str) -> str:
        """Gives the stream of a task."""
        return next(name for name, stream in self.streams.by_id.items() if task_id in stream.tasks)

    def turn(self, after_s: float = 0.0, write: bool = True) -> list[Action]:
        """Lets time pass and the scheduler decide; what it decides is in the log then."""
        self.now_ms += int(after_s * 1000)
        self.actions = self.planner.plan(self.now_ms, lambda stream: stream in self.busy)
        if write:
            for action in self.actions:
                [event] = decide.proposal_of(action, self.fleet.position).events
                stream = self.stream_of(action.task.task_id)
                assert self.tell(event, stream, "scheduler") is Outcome.APPLIED, event
        return self.actions

    def placed(self, after_s: float = 0.0) -> list[tuple[str, str]]:
        """Gives who got which devices in one turn, as (task, "worker/device+device"), in order."""
        return [
            (action.task.task_id, self.where(action))
            for action in self.turn(after_s)
            if isinstance(action, Assign) and not action.behind
        ]

    @staticmethod
    def where(action: Assign) -> str:
        """Names the devices of a move."""
        return f"{action.candidate.host.worker.worker_id}/{'+'.join(action.candidate.device_ids)}"

    def behind(self) -> list[tuple[str, str]]:
        """Gives who was placed behind whom in the last turn."""
        return [
            (action.task.task_id, self.where(action))
            for action in self.actions
            if isinstance(action, Assign) and action.behind
        ]

    def pushed(self) -> list[tuple[str, str]]:
        """Gives who was pushed aside in the last turn, and for whom."""
        return [(action.task.task_id, action.by) for action in self.actions if isinstance(action, Preempt)]

    def recalled(self) -> list[str]:
        """Gives who was asked back in the last turn."""
        return [action.task.task_id for action in self.actions if isinstance(action, Recall)]

    def said(self) -> dict[str, str]:
        """Gives what was said of tasks that can't run, in the last turn."""
        return {
            action.task.task_id: action.message
            for action in self.actions
            if isinstance(action, MarkUnschedulable)
        }

    def token(self, task_id: str) -> dict[str, Any]:
        """Gives the fields that name the placement of a task."""
        task = self.task(task_id)
        assert task.place is not None
        return {
            "task_id": task_id,
            "attempt": task.attempt.number,
            "placement": task.attempt.placement,
            "incarnation": task.place.incarnation,
        }

    def accept(self, task_id: str, status: TaskStatus | None = None) -> None:
        """Has a worker take a placed task, and perhaps say a phase."""
        assert self.tell(TaskAccepted(**self.token(task_id)), self.stream_of(task_id)) is Outcome.APPLIED
        if status is not None:
            self.status(task_id, status)

    def status(self, task_id: str, status: TaskStatus) -> None:
        """Has a worker say a phase."""
        self.tell(TaskStatusChanged(**self.token(task_id), status=status), self.stream_of(task_id))

    def end(self, task_id: str, end: AttemptEnd = AttemptEnd.FINISHED, **more: Any) -> None:
        """Has a worker end a task's attempt."""
        role = "scheduler" if end is AttemptEnd.LOST else "worker"
        ended = AttemptEnded(**self.token(task_id), end=end, **more)
        assert self.tell(ended, self.stream_of(task_id), role) is Outcome.APPLIED

    def refuse(self, task_id: str, code: str = "out_of_memory", message: str = "no room") -> None:
        """Has a worker refuse a placement."""
        refused = TaskRefused(**self.token(task_id), code=code, message=message)
        assert self.tell(refused, self.stream_of(task_id)) is Outcome.APPLIED

    def give_back(self, task_id: str) -> None:
        """Has a worker return a placement."""
        assert self.tell(TaskReturned(**self.token(task_id)), self.stream_of(task_id)) is Outcome.APPLIED

    def beat(
        self,
        name: str = "w1",
        peaks: dict[str, tuple[float, float]] | None = None,
        foreign: dict[str, float] | None = None,
        use: dict[str, float] | None = None,
        available: float | None = None,
        cpu_percent: float | None = None,
    ) -> None:
        """Has a worker say what it sees; memory in GiB, `peaks` as (host, device) by task."""
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
        )
        self.cluster.hosts.apply_heartbeat(beat)
