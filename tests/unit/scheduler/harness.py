"""Runs the scheduler's decisions without processes: a log, workers and a clock that a test drives.

Every action is folded as its event, and must be applied.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal, TypeVar

from tests.unit.domain.given import FIRST_MS, received, record_of
from tests.unit.scheduler.given import GIB, policy
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Event, Record
from trackside.contracts.fleet import fleet as fleet_events
from trackside.contracts.tasks import tasks
from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.contracts.tasks.resources import Needs, Resources
from trackside.domain.fleet import fleet
from trackside.domain.fleet.fleet import Fleet
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.domain.tasks.task import Task
from trackside.scheduler import decide
from trackside.scheduler.planning.actions import Action, Assign, MarkUnschedulable, Preempt, Recall
from trackside.scheduler.planning.cluster_state import ClusterState, SchedulingPolicy
from trackside.scheduler.planning.planner import Planner
from trackside.scheduler.sending.device_commands import PendingCommand, pending_commands

Acted = TypeVar("Acted", bound=Action)


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

    def _record(self, event: Event, stream: str = "s", role: str = "") -> Record:
        self._offset += 1
        record = record_of(event, self._offset - 1, role, stream)
        return replace(record, append_time_ms=self.now_ms)

    def fold(self, event: Event, stream: str = "s", role: str = "") -> Outcome:
        found, outcome = self.streams.fold(self._record(event, stream, role))
        if outcome is Outcome.APPLIED:
            self.cluster.update(stream, found.tasks[getattr(event, "task_id")])  # noqa: B009
        return outcome

    def fold_fleet(self, event: Event) -> None:
        assert fleet.evolve(self.fleet, self._record(event)) is Outcome.APPLIED
        self.sync_hosts()

    def lose(self, worker: str) -> None:
        incarnation = self.fleet.workers[worker].incarnation
        self.fold_fleet(fleet_events.WorkerLost(worker_id=worker, incarnation=incarnation, silent_ms=11_000))

    def end_lost(self) -> None:
        for task, lost in list(decide.lost_attempts(self.cluster, self.fleet, {})):
            self.fold(lost.events[0], self.stream_of(task.task_id), "scheduler")

    def sync_hosts(self) -> None:
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
        named = zip(gpus, uuids or ("",) * len(gpus), strict=True)
        devices = [
            _device("gpu", at, int(size * GIB), index=at, uuid=uuid) for at, (size, uuid) in enumerate(named)
        ]
        devices += [_device("cpu", at, share) for at in range(cpus)]
        joined = fleet_events.WorkerJoined(
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

    def place(self, task_id: str, stream: str = "s", **options: Any) -> list[Action]:
        self.submit(task_id, stream, **options)
        return self.run_pass()

    def assign(self, *task_ids: str, **options: Any) -> list[tuple[str, str]]:
        self.submit_each(task_ids, **options)
        return self.assignments()

    def freed(self, task_id: str) -> list[tuple[str, str]]:
        """Ends a task; returns the assignments of a pass."""
        self.end(task_id)
        return self.assignments()

    def begin(self, task_id: str, **options: Any) -> None:
        self.place(task_id, **options)
        self.accept(task_id, tasks.TaskStatus.TRAINING)

    def reserved(self, task_id: str) -> tasks.Reservation:
        return self.task(task_id).attempt.reserved

    def reserved_bytes(self, task_id: str) -> tuple[int, int]:
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
            self.streams.fold(self._record(received(), stream))
        asked = Needs(resources=Resources(**resources), **(needs or {}))
        more = {"needs": asked, "estimated_by": estimated_by, "inputs": inputs or {}}
        submitted = tasks.TaskSubmitted.model_validate(
            {"task_id": task_id, "task_type": task_type, "parameters": {}, **more}
        )
        assert self.fold(submitted, stream) is Outcome.APPLIED
        return self.task(task_id)

    def task(self, task_id: str) -> Task:
        streams = self.streams.by_id.values()
        return next(stream.tasks[task_id] for stream in streams if task_id in stream.tasks)

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

    def acted(self, kind: type[Acted]) -> list[Acted]:
        return [action for action in self.actions if isinstance(action, kind)]

    def assignments(self, after_s: float = 0.0) -> list[tuple[str, str]]:
        """Runs a pass; returns its assignments in order, as (task, "worker/device+device")."""
        self.run_pass(after_s)
        return self._placed(behind=False)

    def placed_behind(self) -> list[tuple[str, str]]:
        """Returns which tasks the last pass placed after running ones, as (task, place)."""
        return self._placed(behind=True)

    def _placed(self, behind: bool) -> list[tuple[str, str]]:
        found = [(each.task.task_id, each.candidate) for each in self.acted(Assign) if each.behind is behind]
        return [(name, f"{on.host.worker.worker_id}/{'+'.join(on.device_ids)}") for name, on in found]

    def preempted(self) -> list[tuple[str, str]]:
        """Returns which tasks the last pass preempted, as (task, for which task)."""
        return [(action.task.task_id, action.by) for action in self.acted(Preempt)]

    def recalled(self) -> list[str]:
        return [action.task.task_id for action in self.acted(Recall)]

    def unschedulable(self) -> dict[str, str]:
        """Returns the reasons of tasks that the last pass marked as unschedulable."""
        return {action.task.task_id: action.message for action in self.acted(MarkUnschedulable)}

    def placement_fields(self, task_id: str) -> dict[str, Any]:
        task = self.task(task_id)
        assert task.place is not None
        token = {"task_id": task_id, "attempt": task.attempt.number, "placement": task.attempt.placement}
        return token | {"incarnation": task.place.incarnation}

    def _tell(self, kind: type[Event], task_id: str, role: str = "", **fields: Any) -> None:
        event = kind.model_validate(self.placement_fields(task_id) | fields)
        assert self.fold(event, self.stream_of(task_id), role) is Outcome.APPLIED

    def pending(self) -> list[PendingCommand]:
        """Returns the commands that devices are to get."""
        return list(pending_commands(self.cluster, self.fleet))

    def accept(self, task_id: str, status: tasks.TaskStatus | None = None) -> None:
        self._tell(tasks.TaskAccepted, task_id)
        if status is not None:
            self.report_status(task_id, status)

    def report_status(self, task_id: str, status: tasks.TaskStatus) -> None:
        self._tell(tasks.TaskStatusChanged, task_id, status=status)

    def end(self, task_id: str, end: tasks.AttemptEnd = tasks.AttemptEnd.FINISHED, **more: Any) -> None:
        role = "scheduler" if end is tasks.AttemptEnd.LOST else "worker"
        self._tell(tasks.AttemptEnded, task_id, role, **{"end": end, "memory_measure": "own", **more})

    def refuse(self, task_id: str, code: str = "out_of_memory", message: str = "no room") -> None:
        self._tell(tasks.TaskRefused, task_id, code=code, message=message)

    def return_task(self, task_id: str) -> None:
        self._tell(tasks.TaskReturned, task_id)

    def heartbeat(
        self,
        name: str = "w1",
        peaks: dict[str, tuple[float, float]] | None = None,
        foreign: dict[str, float] | None = None,
        use: dict[str, float] | None = None,
        available: float | None = None,
        cpu_percent: float | None = None,
        neighbours: tuple[fleet_events.NeighbourUse, ...] = (),
    ) -> None:
        """Applies a heartbeat; memory in GiB, `peaks` as (host, device) by task."""
        running = []
        for task_id, (host, cuda) in (peaks or {}).items():
            fields = {**self.placement_fields(task_id), "stream": "s"}
            fields["device_ids"] = self.task(task_id).attempt.device_ids
            fields |= {"peak_memory_bytes": int(host * GIB), "peak_cuda_memory_bytes": int(cuda * GIB)}
            del fields["incarnation"]
            running.append(fleet_events.RunningPlacement(**fields))
        foreign, use = foreign or {}, use or {}
        readings = []
        for each in sorted({*foreign, *use}):
            others = int(foreign.get(each, 0) * GIB)
            readings.append(
                fleet_events.DeviceReading(device_id=each, foreign_bytes=others, utilisation=use.get(each))
            )
        more = {"devices": tuple(readings), "neighbours": neighbours, "cpu_percent": cpu_percent}
        if available is not None:
            more["available_bytes"] = int(available * GIB)
        incarnation = self.fleet.workers[name].incarnation
        beat = fleet_events.WorkerHeartbeat(worker_id=name, incarnation=incarnation, running=running, **more)
        self.cluster.hosts.apply_heartbeat(beat)


def one_worker(chosen: SchedulingPolicy | None = None, **options: Any) -> SchedulerHarness:
    harness = SchedulerHarness(chosen)
    harness.join_worker(**options)
    return harness


def _device(kind: Any, at: int, memory_bytes: int, **more: Any) -> fleet_events.Device:
    return fleet_events.Device(
        device_id=f"{kind}-{at}", kind=kind, name=kind, memory_bytes=memory_bytes, **more
    )


def _in_bytes(by_type: dict[str, float]) -> dict[str, int]:
    return {name: int(size * GIB) for name, size in by_type.items()}
