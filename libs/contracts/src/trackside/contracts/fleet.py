"""The fleet: workers, their devices, and their signs of life."""

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from trackside.contracts.message import Event


class Device(BaseModel):
    """One device of a worker: a GPU, or a slot of a CPU."""

    model_config = ConfigDict(frozen=True)
    device_id: str
    kind: Literal["cpu", "gpu"]
    name: str
    memory_bytes: int


class WorkerJoined(Event):
    """A worker process has started; what it recovered of its past is in the log up to `after`.

    `after` maps a partition of the events topic, as text, to the offset behind the last ending that
    the worker appended before it joined. Nobody acts upon the join before having folded to there.
    """

    written_by: ClassVar[frozenset[str]] = frozenset({"worker"})
    worker_id: str
    incarnation: str
    host: str
    devices: list[Device]
    task_types: list[str]
    queues: list[str]
    after: dict[str, int]


class WorkerLeft(Event):
    """A worker has stopped as it was told to."""

    written_by: ClassVar[frozenset[str]] = frozenset({"worker"})
    worker_id: str
    incarnation: str


class WorkerLost(Event):
    """A worker has been silent for longer than its lease."""

    written_by: ClassVar[frozenset[str]] = frozenset({"scheduler"})
    worker_id: str
    incarnation: str
    silent_ms: int


class RunningPlacement(BaseModel):
    """A placement that a worker is running now."""

    model_config = ConfigDict(frozen=True)
    stream: str
    task_id: str
    attempt: int
    placement: int
    device_id: str


class WorkerHeartbeat(Event):
    """A worker lives, and runs these placements."""

    written_by: ClassVar[frozenset[str]] = frozenset({"worker"})
    worker_id: str
    incarnation: str
    running: list[RunningPlacement]


class SchedulerHeartbeat(Event):
    """A scheduler lives; its append time is the clock that leases are measured with."""

    written_by: ClassVar[frozenset[str]] = frozenset({"scheduler"})
    instance: str
