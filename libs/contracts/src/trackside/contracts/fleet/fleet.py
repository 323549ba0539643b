"""The fleet: workers, their devices, and their signs of life."""

from operator import not_
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from trackside.contracts.envelope.message import DISPATCHER, SCHEDULER, SETUP, WORKER, Event, is_absent

CHECK_ARTIFACTS = "trackside.check-artifacts"
"""The task type, built into workers, that says which artifacts the store lacks.

Its parameter `artifacts` lists `{name, sha256, size_bytes, media_type}`; its result is `{missing: [name]}`.
"""
WATCH_DATASET = "trackside.watch-dataset"
"""The task type, built into workers, of the service that says how far a dataset has grown."""
WRITE_MANIFEST = "trackside.write-manifest"
"""The task type, built into workers, that writes the samples of a round to a file of their own."""
COPY_MODEL = "trackside.copy-model"
"""The task type, built into workers, that writes a model where it is read from."""


class Device(BaseModel):
    """One device of a worker: a GPU, or a slot of a CPU, whose memory is its share of the host's.

    `index` is the driver's number of a GPU, `uuid` its name for it.
    """

    model_config = ConfigDict(frozen=True)
    device_id: str
    """Its id, unique in its worker: gpu-0, cpu-0 and so on."""
    kind: Literal["cpu", "gpu"]
    """What it is: a GPU, or a slot of the host's CPU."""
    name: str
    """Its model as the driver names it; `CPU slot` for a slot."""
    memory_bytes: int
    """Its memory in bytes; a CPU slot has an equal share of the host's memory for tasks."""
    index: int = -1
    """The driver's number of a GPU; -1 for a CPU slot."""
    uuid: str = ""
    """The driver's unique name of a GPU, the same for all workers that have it; empty for a CPU slot."""


class LogBegun(Event):
    """The first record of a log: its id. The set-up makes it, and a restore makes another one.

    It counts at offset 0 of the fleet topic only, so that of two set-ups at once the first one wins. A log of
    an earlier release begins with another record. `restored_from` names the log whose backup was restored.
    """

    written_by: ClassVar[frozenset[str]] = SETUP
    log_id: str
    restored_from: str = ""


class WorkerJoined(Event):
    """A worker process has started; the endings that it recovered are in the log up to `after`.

    `after` maps a partition of the events topic, as text, to the offset after the last ending that
    the worker appended before it joined. Services act on the join only after they have folded up to there.
    `memory_bytes` is what the host may give to tasks, `max_tasks` how many processes it takes (0: no limit).
    Workers with the same `memory_pool` share that memory: they run on one kernel, in the same cgroup with a
    limit if there is one. Without it, as in old records, a worker has its memory for itself.
    `max_memory_bytes` is the most that one task of a type may have of it, `max_cuda_memory_bytes` the most of
    each GPU; types without a limit are left out. `credentials` are the names of those that its host has, not
    their keys: what an input needs. `services` are those of its task types that are services.
    `digests` are the SHA-256 of what its catalogue says of each task type. `built_in` are the task types that
    it runs itself, such as `trackside.check-artifacts`. `keep_ms` is how long its tasks run on without it,
    for the next worker, where that is longer than its lease: what its host needs for a start.
    """

    written_by: ClassVar[frozenset[str]] = WORKER
    worker_id: str
    incarnation: str
    host: str
    devices: list[Device]
    task_types: list[str]
    queues: list[str]
    after: dict[str, int]
    memory_bytes: int = 0
    max_tasks: int = 0
    memory_pool: str = ""
    max_memory_bytes: dict[str, int] = Field(default={})
    max_cuda_memory_bytes: dict[str, int] = Field(default={})
    credentials: list[str] = Field(default=[], exclude_if=is_absent)
    services: list[str] = Field(default=[], exclude_if=is_absent)
    digests: dict[str, str] = Field(default={}, exclude_if=is_absent)
    built_in: list[str] = Field(default=[], exclude_if=is_absent)
    keep_ms: int = Field(default=0, exclude_if=not_)


class CatalogueChanged(Event):
    """A worker has read its catalogue again: from here on it runs these task types, with these limits.

    The fields are those of its WorkerJoined; tasks that run already continue.
    """

    written_by: ClassVar[frozenset[str]] = WORKER
    worker_id: str
    incarnation: str
    task_types: list[str]
    max_memory_bytes: dict[str, int] = Field(default_factory=dict)
    max_cuda_memory_bytes: dict[str, int] = Field(default_factory=dict)
    services: list[str] = Field(default=[], exclude_if=is_absent)
    digests: dict[str, str] = Field(default={}, exclude_if=is_absent)


class WorkerLeft(Event):
    """A worker has stopped on request."""

    written_by: ClassVar[frozenset[str]] = WORKER
    worker_id: str
    incarnation: str


class WorkerLost(Event):
    """A worker has been silent for longer than its lease."""

    written_by: ClassVar[frozenset[str]] = SCHEDULER
    worker_id: str
    incarnation: str
    silent_ms: int


class DeviceUnhealthy(Event):
    """A device has failed or vanished: nothing is placed on it until its worker joins again."""

    written_by: ClassVar[frozenset[str]] = WORKER
    worker_id: str
    incarnation: str
    device_id: str
    reason: str


class DeviceReading(BaseModel):
    """A device as its worker sees it now.

    `foreign_bytes` is used by processes that are no tasks, neither of this worker nor of its neighbours.
    """

    model_config = ConfigDict(frozen=True)
    device_id: str
    used_bytes: int = 0
    foreign_bytes: int = 0
    utilisation: float | None = None


class RunningPlacement(BaseModel):
    """A placement that a worker has now, with the peak of its memory."""

    model_config = ConfigDict(frozen=True)
    stream: str
    task_id: str
    attempt: int
    placement: int
    device_ids: list[str]
    peak_memory_bytes: int = 0
    peak_cuda_memory_bytes: int = 0


class NeighbourUse(BaseModel):
    """What another worker on the same host has of the memory and the GPUs that both may use, in bytes.

    `memory_bytes` is reserved there and not in use yet: what is in use is not part of `available_bytes`.
    `device_bytes` are by device id of the worker that reports this.
    """

    model_config = ConfigDict(frozen=True)
    incarnation: str
    memory_bytes: int = 0
    device_bytes: dict[str, int] = {}


class WorkerHeartbeat(Event):
    """A worker lives, and runs these placements; `neighbours` are other workers on its host that have tasks.

    A scheduler books what workers of its own log have, and adds what other neighbours have.
    `disk_low` says why it can't start new tasks: its disk is nearly full or can't be written. It gets none
    while that is set. `sequence` numbers the heartbeats of an incarnation from 1, digests included; it is 0
    in those of workers that send no digests.
    """

    written_by: ClassVar[frozenset[str]] = WORKER
    worker_id: str
    incarnation: str
    running: list[RunningPlacement]
    devices: tuple[DeviceReading, ...] = ()
    available_bytes: int | None = None
    cpu_percent: float | None = None
    neighbours: tuple[NeighbourUse, ...] = ()
    disk_low: str = ""
    sequence: int = 0


class WorkerHeartbeatDigest(Event):
    """A worker lives, and its whole heartbeat number `whole` still says what it runs and how much is free.

    Only use that varies all the time is in it: `cpu_percent` of the host, and `utilisation` of the devices in
    the order of the whole heartbeat, in percent. Each is left out while it is as that says, to within 1.
    A reader that has not read this whole heartbeat knows only that the worker lives; the next one comes after
    10 s at the latest. The id of the worker is the key of the record.
    """

    written_by: ClassVar[frozenset[str]] = WORKER
    incarnation: str
    sequence: int
    whole: int
    cpu_percent: float | None = Field(default=None, exclude_if=is_absent)
    utilisation: list[float | None] = Field(default=[], exclude_if=is_absent)


class SchedulerHeartbeat(Event):
    """A scheduler lives; its append time is the clock that leases are measured with."""

    written_by: ClassVar[frozenset[str]] = SCHEDULER
    instance: str


class LaneBacklogged(Event):
    """Many requests wait for a tuner or assessor process of a dispatcher: in older logs only, has no effect.

    Dispatchers show the number as a gauge and log a warning instead. `incarnation` is the dispatcher's
    process.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    instance: str
    incarnation: str
    lane: str
    waiting: int
    limit: int


class LaneCleared(Event):
    """A lane is no longer backlogged, or its dispatcher has ended: in older logs only, has no effect."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    instance: str
    incarnation: str
    lane: str
    waiting: int
