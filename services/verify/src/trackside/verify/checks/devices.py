"""INV-4: no device, and no memory, is given to two placements at once.

Placements on one device belong to streams of different partitions, so they are ordered by the log's clock.
Where two overlap a little, the worker's own clock decides: its events of two partitions may be written in
another order than it sent them. If a worker recovered an end from its journal after a restart, it isn't known
when that was. Memory is what was reserved; what a task used is not in the log.
"""

import heapq
from dataclasses import dataclass, field

from trackside.domain.findings import Findings, RecordPosition
from trackside.verify.checks.incarnations import IncarnationHistory

GPU = "gpu-"
"""The prefix of ids of devices that may be shared, if the worker's description of its devices is unknown."""


@dataclass(slots=True, eq=False)
class ResourceUse:
    """The use of a resource by a task, in ms of the log's clock; `until_ms` is None while it lasts.

    `worker_since` and `worker_until` are the same times by the worker's clock, RFC 3339, empty if unknown.
    `may_be_recovered`: its worker has restarted, and may still tell when it ended.
    `capacity_bytes` is the memory of the resource (0: unknown), `max_uses` the limit of uses by the tasks of
    one worker (0: none).
    """

    position: RecordPosition
    task_id: str
    worker_id: str
    since_ms: int
    worker_since: str
    memory_bytes: int
    whole: bool = False
    capacity_bytes: int = 0
    max_uses: int = 0
    until_ms: int | None = None
    worker_until: str = ""
    may_be_recovered: bool = False

    def end(self, time_ms: int, worker_time: str) -> None:
        """Sets when it ended, or an earlier end."""
        self.may_be_recovered = False
        if self.until_ms is None or time_ms < self.until_ms:
            self.until_ms, self.worker_until = time_ms, worker_time

    def end_recovered(self, time_ms: int) -> None:
        """Sets the latest time at which it may have ended: it may have been soon after it began."""
        self.end(time_ms, "")
        self.worker_until = self.worker_since

    def ended_before(self, other: "ResourceUse") -> bool:
        """Returns whether it had ended when another one began."""
        return self.until_ms is not None and self.until_ms <= other.since_ms

    def ended_before_by_worker_clock(self, other: "ResourceUse") -> bool:
        """Returns whether it had ended when another one began, by the ms of the worker's clock."""
        return (
            bool(self.worker_until) and bool(other.worker_since) and self.worker_until <= other.worker_since
        )


@dataclass(slots=True)
class SharedResource:
    """A device, or the memory of a host: the uses to be checked, and the active ones."""

    name: str
    _pending: list[tuple[int, int, ResourceUse]] = field(default_factory=list)
    _active: list[ResourceUse] = field(default_factory=list)
    _undecided: list[tuple[ResourceUse, list[ResourceUse]]] = field(default_factory=list)

    def add(self, use: ResourceUse, number: int) -> None:
        """Adds a use; `number` orders those that begin at the same time."""
        heapq.heappush(self._pending, (use.since_ms, number, use))

    def check_until(self, before_ms: float, findings: Findings) -> bool:
        """Checks uses that began before a time to which all records were read; returns if none is left."""
        while self._pending and self._pending[0][0] < before_ms:
            use = heapq.heappop(self._pending)[2]
            if use.ended_before(use):
                continue
            self._active = [other for other in self._active if not other.ended_before(use)]
            self._undecided.append((use, self._active.copy()))
            self._active.append(use)
            findings.checked["INV-4"] += 1
        self._decide(before_ms, findings)
        self._active = [use for use in self._active if use.until_ms is None or use.until_ms > before_ms]
        return not self._pending and not self._active and not self._undecided

    def _decide(self, before_ms: float, findings: Findings) -> None:
        """Adds what is wrong for certain; an end that is recovered may tell that two did not overlap."""
        undecided, self._undecided = self._undecided, []
        for use, active in undecided:
            others = [other for other in active if not other.ended_before_by_worker_clock(use)]
            message = self._violation(use, others)
            if message and before_ms < float("inf") and any(other.may_be_recovered for other in others):
                self._undecided.append((use, active))
            elif message:
                findings.add("INV-4", use.position, message)

    def _violation(self, use: ResourceUse, others: list[ResourceUse]) -> str:
        whole = next((other for other in others if other.whole or use.whole), None)
        if whole is not None:
            return f"{self.name} has task {use.task_id} while it has {whole.task_id}"
        of_worker = [other for other in others if other.worker_id == use.worker_id]
        if use.max_uses and len(of_worker) >= use.max_uses:
            return f"host {use.worker_id} has {len(of_worker) + 1} tasks, it takes {use.max_uses}"
        taken = use.memory_bytes + sum(other.memory_bytes for other in others)
        if use.capacity_bytes and taken > use.capacity_bytes:
            names = ", ".join(sorted(other.task_id for other in others)) or "nothing"
            return (
                f"{self.name} has {use.capacity_bytes} bytes of memory, and {taken} are reserved: "
                f"task {use.task_id} next to {names}"
            )
        return ""


@dataclass(slots=True)
class PlacementUse:
    """The uses of one placement: of its host, and of each of its devices."""

    task_id: str
    worker_id: str
    device_ids: tuple[str, ...]
    incarnation: IncarnationHistory | None
    whole: bool
    host: ResourceUse | None = None
    devices: list[ResourceUse] = field(default_factory=list)


@dataclass(slots=True)
class ResourceChecks:
    """Checks all resources. The uses of an incarnation end with it at the latest."""

    findings: Findings
    _resources: dict[str, SharedResource] = field(default_factory=dict)
    _number: int = 0

    def start_host(
        self,
        placement_use: PlacementUse,
        position: RecordPosition,
        time_ms: int,
        worker_time: str,
        memory_bytes: int,
    ) -> None:
        """Starts the use of a host by a placement, with its reserved memory."""
        if placement_use.host is not None:
            placement_use.host.end(time_ms, worker_time)
        task_id, worker_id = placement_use.task_id, placement_use.worker_id
        placement_use.host = ResourceUse(position, task_id, worker_id, time_ms, worker_time, memory_bytes)
        if placement_use.incarnation is not None:
            placement_use.host.capacity_bytes, placement_use.host.max_uses = (
                placement_use.incarnation.memory_bytes,
                placement_use.incarnation.max_tasks,
            )
        self._add(placement_use, _memory_name(placement_use), placement_use.host)

    def start_devices(
        self,
        placement_use: PlacementUse,
        position: RecordPosition,
        time_ms: int,
        worker_time: str,
        cuda_bytes: int,
    ) -> None:
        """Starts the use of its devices by a placement, unless it has started, with its reserved memory."""
        if placement_use.devices:
            return
        for device_id in placement_use.device_ids:
            shared, capacity_bytes = _shared_memory(placement_use.incarnation, device_id)
            task_id, worker_id = placement_use.task_id, placement_use.worker_id
            use = ResourceUse(position, task_id, worker_id, time_ms, worker_time, cuda_bytes)
            use.whole, use.capacity_bytes = placement_use.whole or not shared, capacity_bytes
            placement_use.devices.append(use)
            self._add(placement_use, _device_name(placement_use, device_id), use)

    def end_devices(self, placement_use: PlacementUse, time_ms: int, worker_time: str) -> None:
        """Ends the use of its devices by a placement."""
        for use in placement_use.devices:
            use.end(time_ms, worker_time)
        placement_use.devices = []

    def end_placement(self, placement_use: PlacementUse, time_ms: int, worker_time: str) -> None:
        """Ends all uses of a placement."""
        self.end_devices(placement_use, time_ms, worker_time)
        if placement_use.host is not None:
            placement_use.host.end(time_ms, worker_time)
            placement_use.host = None

    def recover_end(self, placement_use: PlacementUse, time_ms: int) -> None:
        """Ends all uses of a placement at a time that isn't known, this one at the latest."""
        for use in (*placement_use.devices, *([] if placement_use.host is None else [placement_use.host])):
            use.end_recovered(time_ms)
        placement_use.devices, placement_use.host = [], None

    def check_until(self, before_ms: float) -> None:
        """Checks uses that began before a time up to which all partitions were read."""
        for name, resource in list(self._resources.items()):
            if resource.check_until(before_ms, self.findings):
                del self._resources[name]

    def _add(self, placement_use: PlacementUse, name: str, use: ResourceUse) -> None:
        if placement_use.incarnation is not None and placement_use.incarnation.end_ms is not None:
            use.until_ms, use.may_be_recovered = placement_use.incarnation.end_ms, True
        resource = self._resources.get(name)
        if resource is None:
            resource = self._resources[name] = SharedResource(name)
        self._number += 1
        resource.add(use, self._number)


def _memory_name(placement_use: PlacementUse) -> str:
    """Returns the name of the memory that a placement uses: workers of one pool share it."""
    incarnation = placement_use.incarnation
    pool = "" if incarnation is None else incarnation.memory_pool
    return f"memory pool {pool}" if pool else f"host {placement_use.worker_id}"


def _device_name(placement_use: PlacementUse, device_id: str) -> str:
    """Returns the name of a device: its uuid, where the driver has one, as several workers may have it."""
    incarnation = placement_use.incarnation
    device = None if incarnation is None else incarnation.devices.get(device_id)
    return f"device {device.uuid if device and device.uuid else f'{placement_use.worker_id}/{device_id}'}"


def _shared_memory(incarnation: IncarnationHistory | None, device_id: str) -> tuple[bool, int]:
    """Returns whether several tasks may share a device, and its memory in bytes, 0 if unknown."""
    device = None if incarnation is None else incarnation.devices.get(device_id)
    if device is None:
        return device_id.startswith(GPU), 0
    return (True, device.memory_bytes) if device.kind == "gpu" else (False, 0)
