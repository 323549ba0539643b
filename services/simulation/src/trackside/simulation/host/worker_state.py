"""The state of a simulated worker: the placements on its disk, and the records not yet in the log."""

import asyncio
from collections import Counter, deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from trackside.contracts.envelope.message import Event, Json
from trackside.contracts.envelope.topics import Topic
from trackside.contracts.fleet.fleet import COPY_MODEL, WATCH_DATASET, WRITE_MANIFEST, RunningPlacement
from trackside.contracts.tasks.artifacts import CheckpointReference, TaskResumed
from trackside.contracts.tasks.device_commands import (
    GiveInstruction,
    NextParameters,
    RecallTask,
    RunTask,
    StopTask,
)
from trackside.contracts.tasks.instructions import Instruction
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded, TaskStatus
from trackside.eventlog.errors import TransientError
from trackside.eventlog.log import Log, Outgoing, TopicPartition

TASK_TYPE = "noop"
TRAINING_TYPE = "training"
"""The type of tasks that save checkpoints, and continue from them."""
SERVICE_TYPE = "service"
"""The type of tasks that run until they are stopped."""
ASKING_TYPE = "asking"
"""The type of tasks that ask for the parameters of another trial."""
FIT_TYPE, COMPARE_TYPE, INFERENCE_TYPE = "fit", "compare", "inference"
"""The types of the stages and services of jobs of incremental learning."""
TASK_TYPES = (
    TASK_TYPE,
    TRAINING_TYPE,
    SERVICE_TYPE,
    ASKING_TYPE,
    FIT_TYPE,
    COMPARE_TYPE,
    INFERENCE_TYPE,
)
BUILT_IN = (WATCH_DATASET, WRITE_MANIFEST, COPY_MODEL)
SERVICES = (SERVICE_TYPE, INFERENCE_TYPE, WATCH_DATASET)
PHASES = (TaskStatus.AVAILABLE, TaskStatus.TRAINING)
"""The phases that every task reaches at once."""
LATE_ENDS = 0.1
"""The share of ends that are reported after the devices of the placement went to another one."""
LATE_END_S = 0.2
"""How much later that is at most, s: the last output of a process that was killed is read first."""
PlacementKey = tuple[str, int, int]
"""Task, attempt, placement."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A task with evenly spaced reports over a random time in `seconds`; `points`: as metric points too."""

    seconds: tuple[float, float] = (0.02, 0.5)
    reports: int = 2
    points: bool = False


@dataclass(frozen=True, slots=True)
class SpooledArtifact:
    """Something that a task has saved, in the spool of its placement."""

    number: int
    name: str
    version: int
    kind: str
    content: bytes
    step: int | None = None

    @property
    def digest(self) -> str:
        """Returns the sha256 of its content, in hex."""
        return sha256(self.content).hexdigest()


@dataclass(slots=True, eq=False)
class SimulatedPlacement:
    """A placement in the journal; `ending` is its result, with the values that it reported.

    `cause` is the event that its events rest on, as the command named it. `incarnation` has it now, `earlier`
    had it before. `over`: its task has ended, or was killed. `command` is that of a task which does more than
    report; what that saves is in the `spool`, what else it tells in `said`. `resumed` is the checkpoint that
    it continues from, `result` what it returns if it finishes.
    """

    key: PlacementKey
    stream: str
    incarnation: str
    device_ids: tuple[str, ...]
    parameters: dict[str, Any]
    wait: bool
    cause: str = ""
    earlier: tuple[str, ...] = ()
    begun: bool = False
    over: bool = False
    values: list[float] = field(default_factory=list)
    final: float | None = None
    ending: AttemptEnd | None = None
    reported: bool = False
    command: RunTask | None = None
    spool: list[SpooledArtifact] = field(default_factory=list)
    resumed: CheckpointReference | None = None
    result: Json | None = None
    said: list[tuple[Event, str]] = field(default_factory=list)
    carried_out: Instruction | None = None

    def copy(self) -> "SimulatedPlacement":
        """Returns a copy with lists of its own: what an earlier process still does changes the original."""
        return replace(self, values=[*self.values], spool=[*self.spool], said=[*self.said])

    @property
    def first_step(self) -> int:
        """Returns the step of the first of its values."""
        return 0 if self.resumed is None else self.resumed.step

    @property
    def fails(self) -> bool:
        """Returns whether its attempt is to fail: one of the first so many, as its task's parameters say."""
        failing: int = self.parameters.get("failing_attempts", 0)
        return self.key[1] <= failing

    @property
    def token(self) -> dict[str, Any]:
        """Returns the fields that identify it in events."""
        return {"task_id": self.key[0], "attempt": self.key[1], "placement": self.key[2]}

    def all_values(self, workload: Workload) -> list[float]:
        """Returns the values that it reports in the end."""
        slope = float(self.parameters.get("x", 0.0))
        return [slope * (step + 1) for step in range(workload.reports)]

    def uuids(self, of_devices: Mapping[str, str]) -> list[str]:
        """Returns the uuids of its devices, of those that have one."""
        return [uuid for device_id, uuid in of_devices.items() if device_id in self.device_ids]

    def ended(self, end: AttemptEnd, recovered: bool = False) -> AttemptEnded:
        """Returns the event of its end."""
        result = self.result if end is AttemptEnd.FINISHED else None
        return AttemptEnded(
            **self.token, incarnation=self.incarnation, end=end, recovered=recovered, result=result
        )

    def resumed_event(self) -> TaskResumed:
        """Returns the event that it continues from its checkpoint."""
        assert self.resumed is not None
        return TaskResumed(
            **self.token, incarnation=self.incarnation, step=self.resumed.step, checkpoint=self.resumed
        )

    def spooled(self, name: str, kind: str, content: bytes, step: int | None = None) -> SpooledArtifact:
        """Returns the record of something that it saves next."""
        earlier = 0 if self.command is None else self.command.saved.get(name, 0)
        version = earlier + 1 + sum(each.name == name for each in self.spool)
        return SpooledArtifact(len(self.spool) + 1, name, version, kind, content, step)

    def running(self) -> RunningPlacement:
        """Returns the entry of it in heartbeats."""
        return RunningPlacement(stream=self.stream, device_ids=[*self.device_ids], **self.token)


@dataclass(slots=True)
class SharedGpus:
    """Who has the GPUs that workers of one host share, by uuid, as their locks there tell each of them.

    `violations` says where a worker has begun a task on a GPU that another one had.
    """

    users: dict[str, str] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    def is_taken(self, uuids: Collection[str], worker_id: str) -> bool:
        """Returns whether another worker has one of these GPUs."""
        return any(self.users.get(uuid, worker_id) != worker_id for uuid in uuids)

    def take(self, uuids: Collection[str], worker_id: str) -> None:
        """Assigns GPUs to a worker."""
        for uuid in uuids:
            other = self.users.setdefault(uuid, worker_id)
            if other != worker_id:
                self.violations.append(f"{worker_id} begins a task on {uuid} while {other} has one there")

    def release(self, uuids: Collection[str], worker_id: str) -> None:
        """Takes back the GPUs that a worker has."""
        for uuid in uuids:
            if self.users.get(uuid) == worker_id:
                del self.users[uuid]


@dataclass(slots=True)
class SimulatedDisk:
    """What outlives a worker's process, how often each placement was started, and what happened to tasks."""

    journal: dict[PlacementKey, SimulatedPlacement] = field(default_factory=dict)
    begun: Counter[PlacementKey] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)


class SimulatedOutbox:
    """Appends records in order within a partition, until the log has them."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._waiting: dict[
            TopicPartition, deque[tuple[Outgoing, SimulatedPlacement | asyncio.Event | None]]
        ] = {}
        self._writers: dict[TopicPartition, asyncio.Task[None]] = {}
        self.positions: dict[TopicPartition, int] = {}

    def send(
        self,
        topic: Topic,
        partition: int,
        record: Outgoing,
        then: "SimulatedPlacement | asyncio.Event | None" = None,
    ) -> None:
        """Queues a record; `then` is set once it is in the log."""
        place = (topic.name, partition)
        self._waiting.setdefault(place, deque()).append((record, then))
        if place not in self._writers:
            self._writers[place] = asyncio.get_running_loop().create_task(self._write(place))

    async def _write(self, place: TopicPartition) -> None:
        waiting = self._waiting[place]
        while waiting:
            batch = list(waiting)
            try:
                appended = await self._log.append(*place, [record for record, _ in batch])
            except TransientError:
                await asyncio.sleep(0.05)
                continue
            self.positions[place] = appended.offset + len(batch)
            for _, then in batch:
                waiting.popleft()
                if isinstance(then, SimulatedPlacement):
                    then.reported = True
                elif then is not None:
                    then.set()
        del self._writers[place]


def placement_key(
    command: RunTask | StopTask | RecallTask | GiveInstruction | NextParameters,
) -> PlacementKey:
    """Returns the key of the placement that a command is about."""
    return command.task_id, command.attempt, command.placement


def simulated_placement(
    command: RunTask | StopTask | RecallTask,
    device_ids: tuple[str, ...],
    parameters: dict[str, Any],
    wait: bool,
    cause: str,
) -> SimulatedPlacement:
    """Returns the placement that a command is about."""
    made = SimulatedPlacement(
        placement_key(command), command.stream, command.incarnation, device_ids, parameters, wait, cause
    )
    if isinstance(command, RunTask) and command.task_type != TASK_TYPE:
        made.command = command
    return made
