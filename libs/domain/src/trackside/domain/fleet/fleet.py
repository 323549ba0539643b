"""The fleet: which workers are there, in which incarnation, with which devices."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from trackside.contracts.envelope.message import Event, Record
from trackside.contracts.envelope.trusted_keys import Trust
from trackside.contracts.fleet.fleet import (
    CatalogueChanged,
    Device,
    DeviceUnhealthy,
    LogBegun,
    WorkerJoined,
    WorkerLeft,
    WorkerLost,
)
from trackside.contracts.trust.trust import distrust_of, next_digest
from trackside.domain.outcome import Outcome
from trackside.domain.streams import key_events
from trackside.domain.streams.worker_events import distrust_of_member

LEFT, LOST = "left", "lost"
"""How a worker went."""
MAX_KEEP_MS = 3_600_000
"""The longest that tasks run on without their worker, in ms, whatever it says."""


@dataclass(slots=True)
class Worker:
    """A worker as its newest WorkerJoined describes it."""

    worker_id: str
    """Its id, the same in all its incarnations."""
    incarnation: str
    """The id of its process: another one for each start."""
    host: str
    """The name of its host."""
    devices: dict[str, Device]
    """Its devices by device id, also the unhealthy ones."""
    task_types: frozenset[str]
    """The task types that its catalogue names."""
    queues: frozenset[str]
    """The queues that it takes tasks from."""
    after: dict[int, int]
    """The position by partition of the events topic that must be folded before its join has an effect: the
    ends of attempts that it recovered come before that.
    """
    joined_ms: int
    """When it joined: append time of WorkerJoined, in ms since 1970."""
    joined_at: int = -1
    """Offset of WorkerJoined in the fleet topic; -1: unknown."""
    memory_bytes: int = 0
    """The memory that its host gives to tasks, in bytes; 0: unknown."""
    max_tasks: int = 0
    """How many tasks it runs at once; 0: no limit."""
    memory_pool: str = ""
    """What its memory is part of: workers with the same one share it; empty: it has its own."""
    max_memory_bytes: Mapping[str, int] = field(default_factory=dict)
    """The most that one task may have of its host's memory, in bytes, by the task types with such a limit."""
    max_cuda_memory_bytes: Mapping[str, int] = field(default_factory=dict)
    """The same of each GPU."""
    credentials: frozenset[str] = frozenset()
    """The names of the credentials that its host has."""
    services: frozenset[str] = frozenset()
    """Those of its task types that are services."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """The digests of what its catalogue says of each task type; empty for a worker of an earlier release."""
    built_in: frozenset[str] = frozenset()
    """The task types that it runs itself, whatever its catalogue."""
    keep_ms: int = 0
    """How long its tasks run on without it, for its next incarnation, in ms; 0: for its lease."""
    unhealthy: dict[str, str] = field(default_factory=dict)
    """Why devices have failed, by device id; cleared when the worker joins again."""
    gone: str = ""
    """How it went: left or lost; empty while it is there."""
    gone_ms: int = 0
    """When it went: append time of that event, in ms since 1970; 0 while it is there."""


@dataclass(slots=True)
class Fleet:
    """All workers, as folded from the fleet topic."""

    workers: dict[str, Worker] = field(default_factory=dict)
    """All workers that ever joined, by worker id: each in its newest incarnation."""
    incarnations: set[str] = field(default_factory=set)
    """The incarnations that ever joined: a second join of one is a duplicate."""
    position: int = 0
    """The offset of the next record to fold in the fleet topic."""
    trust: Trust = field(default_factory=Trust)
    """The keys that the topic trusts."""
    next_digest: bytes = b""
    """The digest of the next record of a signed decision, which the record before it names."""

    @property
    def task_types(self) -> frozenset[str]:
        """Every task type that some worker's newest catalogue names."""
        return frozenset().union(*(worker.task_types for worker in self.workers.values()))

    @property
    def credentials(self) -> frozenset[str]:
        """The names of every credential that some worker's host had when that joined last."""
        return frozenset().union(*(worker.credentials for worker in self.workers.values()))

    @property
    def services(self) -> frozenset[str]:
        """The task types that are a service in each catalogue that names them."""
        found = frozenset().union(*(worker.services for worker in self.workers.values()))
        others = (worker.task_types - worker.services for worker in self.workers.values())
        return found.difference(*others)

    @property
    def mixed(self) -> frozenset[str]:
        """The task types that are a service in some catalogues, and none in others."""
        found = frozenset().union(*(worker.services for worker in self.workers.values()))
        return found - self.services

    @property
    def digests(self) -> dict[str, tuple[str, ...]]:
        """The digests of each task type in all newest catalogues that have one, sorted."""
        found: dict[str, set[str]] = {}
        for worker in self.workers.values():
            for task_type, digest in worker.digests.items():
                found.setdefault(task_type, set()).add(digest)
        return {task_type: tuple(sorted(digests)) for task_type, digests in found.items()}

    def current(self, worker_id: str, incarnation: str) -> bool:
        """Returns whether this incarnation of a worker is there."""
        worker = self.workers.get(worker_id)
        return worker is not None and worker.incarnation == incarnation and not worker.gone

    def knows(self, incarnation: str) -> bool:
        """Returns whether this incarnation has ever joined."""
        return incarnation in self.incarnations


def evolve(fleet: Fleet, record: Record) -> Outcome:
    """Folds one record of the fleet topic. Never raises."""
    fleet.position = record.offset + 1
    record.trust = fleet.trust
    event = record.message
    if not isinstance(event, Event) or record.envelope.role not in event.written_by:
        return Outcome.OVERTAKEN
    if type(event) in key_events.KINDS:
        return key_events.evolve(fleet.trust, record)
    if fleet.trust.requires(record.offset) and not _is_trusted(fleet, record):
        return Outcome.OVERTAKEN
    match event:
        case LogBegun():
            return Outcome.APPLIED if record.offset == 0 else Outcome.OVERTAKEN
        case WorkerJoined():
            return _joined(fleet, event, record)
        case WorkerLeft():
            return _gone(fleet, event, LEFT, record)
        case WorkerLost():
            return _gone(fleet, event, LOST, record)
        case CatalogueChanged():
            return _catalogue_changed(fleet, event)
        case DeviceUnhealthy():
            return _device_unhealthy(fleet, event)
        case _:  # also LaneBacklogged and LaneCleared: older logs have them, and no state depends on them
            return Outcome.OVERTAKEN


def _is_trusted(fleet: Fleet, record: Record) -> bool:
    record.distrust = distrust_of(fleet.trust, record, fleet.next_digest) or distrust_of_member(record)
    if not record.distrust:
        fleet.next_digest = next_digest(record)
    return not record.distrust


def _joined(fleet: Fleet, event: WorkerJoined, record: Record) -> Outcome:
    if event.incarnation in fleet.incarnations:
        return Outcome.DUPLICATE
    fleet.incarnations.add(event.incarnation)
    fleet.workers[event.worker_id] = Worker(
        worker_id=event.worker_id,
        incarnation=event.incarnation,
        host=event.host,
        devices={device.device_id: device for device in event.devices},
        task_types=frozenset(event.task_types),
        queues=frozenset(event.queues),
        after=dict(_after(event)),
        joined_ms=record.append_time_ms,
        joined_at=record.offset,
        memory_bytes=event.memory_bytes,
        max_tasks=event.max_tasks,
        memory_pool=event.memory_pool,
        max_memory_bytes=event.max_memory_bytes,
        max_cuda_memory_bytes=event.max_cuda_memory_bytes,
        credentials=frozenset(event.credentials),
        services=frozenset(event.services),
        digests=event.digests,
        built_in=frozenset(event.built_in),
        keep_ms=min(event.keep_ms, MAX_KEEP_MS),
    )
    return Outcome.APPLIED


def _after(event: WorkerJoined) -> Iterator[tuple[int, int]]:
    for partition, offset in event.after.items():
        if partition.isascii() and partition.isdigit() and len(partition) < 10:
            yield int(partition), offset


def _gone(fleet: Fleet, event: WorkerLeft | WorkerLost, why: str, record: Record) -> Outcome:
    worker = fleet.workers.get(event.worker_id)
    if worker is None or worker.incarnation != event.incarnation:
        return Outcome.OVERTAKEN
    if worker.gone:
        return Outcome.DUPLICATE
    worker.gone = why
    worker.gone_ms = record.append_time_ms
    return Outcome.APPLIED


def _catalogue_changed(fleet: Fleet, event: CatalogueChanged) -> Outcome:
    worker = fleet.workers.get(event.worker_id)
    if worker is None or worker.incarnation != event.incarnation or worker.gone:
        return Outcome.OVERTAKEN
    # Another object, as after a join: who keeps what it knows of a worker sees that it has changed.
    fleet.workers[event.worker_id] = replace(
        worker,
        task_types=frozenset(event.task_types),
        max_memory_bytes=dict(event.max_memory_bytes),
        max_cuda_memory_bytes=dict(event.max_cuda_memory_bytes),
        services=frozenset(event.services),
        digests=event.digests,
    )
    return Outcome.APPLIED


def _device_unhealthy(fleet: Fleet, event: DeviceUnhealthy) -> Outcome:
    worker = fleet.workers.get(event.worker_id)
    if worker is None or worker.incarnation != event.incarnation or event.device_id not in worker.devices:
        return Outcome.OVERTAKEN
    if event.device_id in worker.unhealthy:
        return Outcome.DUPLICATE
    worker.unhealthy[event.device_id] = event.reason
    return Outcome.APPLIED
