"""INV-4: no device, and no memory, is given to two placements at once.

Placements on one device belong to streams of different partitions, and neither append times nor clocks tell
which came first. Their worker does: it numbers the events of an incarnation in the order in which they
happened (`ce_sequence`), the end of a placement when its devices are free. Uses are compared in that order up
to the first number that was not read: all before it is known, so no later record can explain what is found.
After a gap, as a crash leaves one, uses are compared only with those whose end is known. Memory is what was
reserved; what a task used is not in the log.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from trackside.contracts.envelope.message import Record
from trackside.contracts.tasks.tasks import AttemptEnded, TaskInterrupted, TaskReturned
from trackside.domain.checks.findings import Findings, RecordPosition, position_of
from trackside.verify.checks.tasks.incarnations import IncarnationHistory

GPU = "gpu-"
"""The prefix of ids of devices that may be shared, if the worker's description of its devices is unknown."""

StreamPlacement = tuple[str, str, int, int]
"""Stream, task, attempt, placement."""


@dataclass(frozen=True, slots=True)
class AssignedPlace:
    """Where a placement is to run; `incarnation` is None if it never joined."""

    worker_id: str
    incarnation: IncarnationHistory | None
    device_ids: tuple[str, ...]
    whole: bool


@dataclass(frozen=True, slots=True)
class UseStart:
    """A placement begins to use its host, or its devices.

    `host_bytes` and `device_bytes` are the memory that it reserves there; None: it goes on as before.
    """

    position: RecordPosition
    placement: StreamPlacement
    place: AssignedPlace
    host_bytes: int | None
    device_bytes: int | None
    begins: bool
    """Whether it is accepted with this; else it was before, and if it has ended since, nothing starts."""


@dataclass(frozen=True, slots=True)
class UseEnd:
    """A placement ends, or only its use of its devices."""

    placement: StreamPlacement
    devices_only: bool = False


UseChange = UseStart | UseEnd | None
"""What an event changes; None: nothing, it only has a number."""


@dataclass(slots=True, eq=False)
class PlacementUse:
    """What a placement has now: `device_bytes` of each of its devices, None while it has none of them."""

    placement: StreamPlacement
    place: AssignedPlace
    host_bytes: int = 0
    device_bytes: int | None = None

    @property
    def task_id(self) -> str:
        """Returns the id of its task, unique in its stream."""
        return self.placement[1]

    def beside(self, other: "PlacementUse") -> str:
        """Returns the id of its task, with the stream if the other one's task is named alike."""
        stream, task_id, _, _ = self.placement
        return f"{task_id} of {stream}" if task_id == other.task_id else task_id


@dataclass(slots=True)
class IncarnationUses:
    """The uses of one incarnation in the order of its events; `next` is the first number not read so far."""

    next: int = 1
    _waiting: dict[int, UseChange] = field(default_factory=dict)
    _active: dict[StreamPlacement, PlacementUse] = field(default_factory=dict)

    def start(self, number: int, start: UseStart) -> None:
        """Adds the start of a use by the event of a number."""
        self._waiting[number] = start

    def take(self, number: int, change: UseChange) -> None:
        """Adds what the event of a number changes, unless a start or a copy of the event was added."""
        if number >= self.next:
            self._waiting.setdefault(number, change)

    def advance(self, findings: Findings) -> None:
        """Compares uses up to the first event that was not read."""
        while self.next in self._waiting:
            self._apply(self._waiting.pop(self.next), findings)
            self.next += 1

    def finish(self, findings: Findings) -> int:
        """Compares the uses after a gap with those whose end is known; returns how many there were."""
        numbers = sorted(self._waiting)
        ended = {change.placement for change in self._waiting.values() if type(change) is UseEnd}
        self._drop(self._active.keys() - ended)
        for number in numbers:
            change = self._waiting[number]
            self._apply(change, findings)
            if type(change) is UseStart and change.placement not in ended:
                self._drop((change.placement,))
        return sum(type(change) is UseStart for change in self._waiting.values())

    def in_use(self) -> int:
        """Counts what is kept: placements that have not ended, and events after a gap."""
        return len(self._waiting) + len(self._active)

    def _drop(self, placements: Iterable[StreamPlacement]) -> None:
        for placement in list(placements):
            self._active.pop(placement, None)

    def _apply(self, change: UseChange, findings: Findings) -> None:
        if type(change) is UseStart:
            self._start(change, findings)
        elif type(change) is UseEnd and not change.devices_only:
            self._active.pop(change.placement, None)
        elif type(change) is UseEnd and (use := self._active.get(change.placement)) is not None:
            use.device_bytes = None

    def _start(self, start: UseStart, findings: Findings) -> None:
        use = self._active.get(start.placement)
        if use is None:
            if not start.begins:
                return
            use = self._active[start.placement] = PlacementUse(start.placement, start.place)
        if start.host_bytes is not None:
            use.host_bytes = start.host_bytes
            self._report(start, self._host_violation(use), findings)
        if start.device_bytes is not None and use.device_bytes is None:
            use.device_bytes = start.device_bytes
            for device_id in use.place.device_ids:
                self._report(start, self._device_violation(use, device_id), findings)

    def _report(self, start: UseStart, message: str, findings: Findings) -> None:
        findings.checked["INV-4"] += 1
        if message:
            findings.add("INV-4", start.position, message)

    def _host_violation(self, use: PlacementUse) -> str:
        history = use.place.incarnation
        others = [other for other in self._active.values() if other is not use]
        if history is None:
            return ""
        if history.max_tasks and len(others) >= history.max_tasks:
            return f"host {use.place.worker_id} has {len(others) + 1} tasks, it takes {history.max_tasks}"
        taken = use.host_bytes + sum(other.host_bytes for other in others)
        return _memory_violation(_memory_name(use.place), use, others, taken, history.memory_bytes)

    def _device_violation(self, use: PlacementUse, device_id: str) -> str:
        name = _device_name(use.place, device_id)
        shared, capacity_bytes = _shared_memory(use.place.incarnation, device_id)
        others = [
            other
            for other in self._active.values()
            if other is not use and other.device_bytes is not None and device_id in other.place.device_ids
        ]
        whole = next((other for other in others if use.place.whole or other.place.whole or not shared), None)
        if whole is not None:
            return f"{name} has task {use.task_id} while it has {whole.beside(use)}"
        taken = (use.device_bytes or 0) + sum(other.device_bytes or 0 for other in others)
        return _memory_violation(name, use, others, taken, capacity_bytes)


@dataclass(slots=True)
class ResourceChecks:
    """Checks the devices and hosts of all incarnations; `unnumbered` counts uses whose order isn't known."""

    findings: Findings
    unnumbered: int = 0
    _by_incarnation: dict[str, IncarnationUses] = field(default_factory=dict)

    def start(
        self,
        record: Record,
        place: AssignedPlace,
        host_bytes: int | None,
        device_bytes: int | None,
        *,
        begins: bool = False,
    ) -> None:
        """Adds the start of a use, before its record is taken; see `UseStart`."""
        number, uses = record.envelope.sequence, self._uses(_incarnation_of(record))
        if number < uses.next:
            self.unnumbered += 1
            return
        start = UseStart(position_of(record), _placement_of(record), place, host_bytes, device_bytes, begins)
        uses.start(number, start)

    def take(self, record: Record) -> None:
        """Takes the number of a record: of a worker's events each has one, applied or not."""
        number, name = record.envelope.sequence, _incarnation_of(record)
        if number and name:
            uses = self._uses(name)
            uses.take(number, _end_of(record))
            uses.advance(self.findings)

    def finish(self) -> int:
        """Compares what is left; returns how many uses could not be compared with all others."""
        return self.unnumbered + sum(uses.finish(self.findings) for uses in self._by_incarnation.values())

    def in_use(self) -> int:
        """Counts what is kept: placements that have not ended, and events after a gap."""
        return sum(uses.in_use() for uses in self._by_incarnation.values())

    def _uses(self, incarnation: str) -> IncarnationUses:
        uses = self._by_incarnation.get(incarnation)
        if uses is None:
            uses = self._by_incarnation[incarnation] = IncarnationUses()
        return uses


def _placement_of(record: Record) -> StreamPlacement:
    """Returns the placement that an event of a worker is about."""
    event = record.message
    return record.envelope.stream, event.task_id, event.attempt, event.placement  # type: ignore[attr-defined]


def _incarnation_of(record: Record) -> str:
    return getattr(record.message, "incarnation", "") if record.envelope.role == "worker" else ""


def _end_of(record: Record) -> UseChange:
    """Returns what ends with an event, also if it isn't applied: its worker knows when it was over."""
    kind = type(record.message)
    if kind is AttemptEnded or kind is TaskReturned:
        return UseEnd(_placement_of(record))
    return UseEnd(_placement_of(record), devices_only=True) if kind is TaskInterrupted else None


def _memory_violation(
    name: str, use: PlacementUse, others: list[PlacementUse], taken: int, capacity_bytes: int
) -> str:
    if not capacity_bytes or taken <= capacity_bytes:
        return ""
    names = ", ".join(sorted(other.beside(use) for other in others)) or "nothing"
    return (
        f"{name} has {capacity_bytes} bytes of memory, and {taken} are reserved: "
        f"task {use.task_id} next to {names}"
    )


def _memory_name(place: AssignedPlace) -> str:
    """Returns the name of the memory that a placement uses: workers of one pool share it."""
    pool = "" if place.incarnation is None else place.incarnation.memory_pool
    return f"memory pool {pool}" if pool else f"host {place.worker_id}"


def _device_name(place: AssignedPlace, device_id: str) -> str:
    """Returns the name of a device: its uuid, where the driver has one, as several workers may have it."""
    device = None if place.incarnation is None else place.incarnation.devices.get(device_id)
    return f"device {device.uuid if device and device.uuid else f'{place.worker_id}/{device_id}'}"


def _shared_memory(incarnation: IncarnationHistory | None, device_id: str) -> tuple[bool, int]:
    """Returns whether several tasks may share a device, and its memory in bytes, 0 if unknown."""
    device = None if incarnation is None else incarnation.devices.get(device_id)
    if device is None:
        return device_id.startswith(GPU), 0
    return (True, device.memory_bytes) if device.kind == "gpu" else (False, 0)
