"""The fleet: which workers are there, in which incarnation, with which devices."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from trackside.contracts.fleet import Device, DeviceUnhealthy, WorkerJoined, WorkerLeft, WorkerLost
from trackside.contracts.message import Event, Record
from trackside.domain.outcome import Outcome


@dataclass(slots=True)
class Worker:
    """A worker as its newest join describes it, at offset `joined_at`; `gone` says why it left: left or lost.

    `memory_bytes` is what its host gives to tasks, `max_tasks` how many it takes at once (0: no limit),
    `unhealthy` maps the devices that have failed to the reason.
    """

    worker_id: str
    incarnation: str
    host: str
    devices: dict[str, Device]
    task_types: frozenset[str]
    queues: frozenset[str]
    after: dict[int, int]
    joined_ms: int
    joined_at: int = -1
    memory_bytes: int = 0
    max_tasks: int = 0
    unhealthy: dict[str, str] = field(default_factory=dict)
    gone: str = ""
    gone_ms: int = 0


@dataclass(slots=True)
class Fleet:
    """All workers that ever joined, by id, and the position folded in the fleet topic."""

    workers: dict[str, Worker] = field(default_factory=dict)
    incarnations: set[str] = field(default_factory=set)
    position: int = 0

    @property
    def task_types(self) -> frozenset[str]:
        """Every task type that some worker's newest catalogue names."""
        return frozenset().union(*(worker.task_types for worker in self.workers.values()))

    def current(self, worker_id: str, incarnation: str) -> bool:
        """Says whether this incarnation of a worker is there."""
        worker = self.workers.get(worker_id)
        return worker is not None and worker.incarnation == incarnation and not worker.gone

    def knows(self, incarnation: str) -> bool:
        """Says whether this incarnation has ever joined."""
        return incarnation in self.incarnations


def evolve(fleet: Fleet, record: Record) -> Outcome:
    """Folds one record of the fleet topic. Never raises."""
    fleet.position = record.offset + 1
    event = record.message
    if not isinstance(event, Event) or record.envelope.role not in event.written_by:
        return Outcome.OVERTAKEN
    match event:
        case WorkerJoined():
            return _joined(fleet, event, record)
        case WorkerLeft():
            return _gone(fleet, event, "left", record)
        case WorkerLost():
            return _gone(fleet, event, "lost", record)
        case DeviceUnhealthy():
            return _device_unhealthy(fleet, event)
        case _:  # also LaneBacklogged and LaneCleared: older logs have them, and no state depends on them
            return Outcome.OVERTAKEN


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


def _device_unhealthy(fleet: Fleet, event: DeviceUnhealthy) -> Outcome:
    worker = fleet.workers.get(event.worker_id)
    if worker is None or worker.incarnation != event.incarnation or event.device_id not in worker.devices:
        return Outcome.OVERTAKEN
    if event.device_id in worker.unhealthy:
        return Outcome.DUPLICATE
    worker.unhealthy[event.device_id] = event.reason
    return Outcome.APPLIED
