"""Where a task fits: on free devices, or after a task that runs there. Pure."""

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from trackside.contracts.envelope.memory import MAX_BYTES
from trackside.contracts.tasks.tasks import Reservation
from trackside.scheduler.hosts.booking import Booking
from trackside.scheduler.hosts.device_state import DeviceState, device_limit, host_limit
from trackside.scheduler.hosts.estimates import MemoryDemand, MemoryEstimate
from trackside.scheduler.hosts.occupancy import AdmissionLimits, HostState
from trackside.scheduler.hosts.requirements import Requirements

ORDERS = ("FIRST-FIT", "REMAIN-MEM", "TOTAL-MEM", "UTILISATION")


@dataclass(frozen=True, slots=True)
class Candidate:
    """Devices of one host on which a task fits, and what is reserved for it there."""

    host: HostState
    devices: tuple[DeviceState, ...]
    reserved: Reservation

    @property
    def device_ids(self) -> list[str]:
        """The ids of the devices."""
        return [device.spec.device_id for device in self.devices]

    def booking(
        self, task_id: str, requirements: Requirements, *, behind: bool = False, nominated: bool = False
    ) -> Booking:
        """Returns the booking of a task that gets this place."""
        return Booking(
            task_id=task_id,
            device_ids=tuple(self.device_ids),
            memory_bytes=self.reserved.memory_bytes,
            cuda_memory_bytes=self.reserved.cuda_memory_bytes,
            whole_device=requirements.whole_device,
            behind=behind,
            nominated=nominated,
        )


@dataclass(frozen=True, slots=True)
class PlacementRules:
    """What holds for every placement: admission limits, and the order in which devices are tried."""

    admission: AdmissionLimits = field(default_factory=AdmissionLimits)
    order: str = "FIRST-FIT"

    def sort_key(self, device: DeviceState) -> float:
        """Returns the sort key of a device: the smallest is tried first."""
        reverse = self.order.startswith("-")
        match self.order.removeprefix("-"):
            case "REMAIN-MEM":
                found = -float(device.free_bytes if device.is_gpu else device.spec.memory_bytes)
            case "TOTAL-MEM":
                found = -float(device.spec.memory_bytes)
            case "UTILISATION":
                found = device.utilisation if device.is_gpu else float(bool(device.bookings)) * 100
            case _:
                found = float(device.rank)
        return -found if reverse else found


@dataclass(frozen=True, slots=True)
class PlacementQuery:
    """A search for a place: for tasks with these requirements and this demand, under these rules.

    `is_usable` leaves out devices, and hosts for tasks without one, that are avoided for now. `expected_ms`
    is how long such tasks have a device, None if unknown.
    """

    requirements: Requirements
    demand: MemoryDemand
    rules: PlacementRules
    is_usable: Callable[[DeviceState | HostState], bool]
    expected_ms: int | None = None


def reservable_device_bytes(
    host: HostState,
    device: DeviceState,
    requirements: Requirements,
    estimate: MemoryEstimate,
    admission: AdmissionLimits,
) -> int | None:
    """Returns what a task gets on a GPU, bytes, or None if it does not fit next to the tasks there."""
    others = device.bookings
    if others and (requirements.whole_device or device.is_exclusive):
        return None
    need = estimate.within(device_limit(host.worker, device.spec, requirements.task_type))
    total = device.spec.memory_bytes
    if need is None or total == 0:
        return need
    kept_free = max(int(total * admission.device_free_share), admission.device_free_bytes) if others else 0
    free = device.free_bytes
    if need <= free - kept_free:
        return None if device.waiting and delays_waiting(device, need) else need
    if not others and not estimate.is_user_given and need <= min(total, 2 * free):
        return free
    return None


def delays_waiting(device: DeviceState, newcomer_bytes: int) -> bool:
    """Returns whether the first task that waits here would wait for one more task because of a newcomer."""
    first = device.waiting[0]
    room_bytes = device.spec.memory_bytes - device.foreign_bytes - first.cuda_memory_bytes
    present = [booking for booking in device.bookings.values() if booking not in device.waiting]
    running = sorted(booking.cuda_memory_bytes for booking in present if not booking.endless)
    if first.whole_device:
        return True
    remaining = sum(booking.cuda_memory_bytes for booking in present)
    while running and remaining > room_bytes:
        remaining -= running.pop()
    return remaining + newcomer_bytes > room_bytes


def reservable_host_bytes(
    host: HostState, devices: Iterable[DeviceState], query: PlacementQuery
) -> int | None:
    """Returns what a task gets of the host's memory, bytes, or None if it does not fit.

    A default is at most the CPU slots' share of their host, and never keeps a task off a free slot.
    """
    estimate, admission = query.demand.memory, query.rules.admission
    need = estimate.within(host_limit(host.worker, query.requirements.task_type))
    if need is None:
        return None
    share = sum(device.spec.memory_bytes for device in devices if not device.is_gpu)
    is_default = estimate.source == "default"
    need = min(need, share) if is_default and share else need
    total = host.worker.memory_bytes
    if total == 0:
        return need
    kept_free = (
        max(int(total * admission.host_free_share), admission.host_free_bytes) if host.has_tasks else 0
    )
    free = host.free_bytes
    if need <= free - kept_free:
        return need
    if is_default and share:
        return max(0, min(need, free))
    if not host.has_tasks and not estimate.is_user_given and need <= min(total, 2 * free):
        return free
    return None


def candidate_on(
    host: HostState, devices: tuple[DeviceState, ...], query: PlacementQuery
) -> Candidate | None:
    """Returns the place of a task on these free devices, or None if it does not fit."""
    demand, admission = query.demand, query.rules.admission
    cuda = 0
    for device in devices:
        if not device.is_gpu:
            if device.bookings:
                return None
            continue
        found = reservable_device_bytes(host, device, query.requirements, demand.cuda, admission)
        if found is None:
            return None
        cuda = max(cuda, found)
    memory = reservable_host_bytes(host, devices, query)
    if memory is None or not host.has_room(admission):
        return None
    with_cuda = bool(devices) and devices[0].is_gpu
    return Candidate(host, devices, _reservation(memory, cuda, demand, with_cuda))


def _reservation(memory: int, cuda: int, demand: MemoryDemand, with_cuda: bool) -> Reservation:
    return Reservation(
        memory_bytes=memory,
        cuda_memory_bytes=cuda,
        estimated_by=demand.estimated_by(with_cuda=with_cuda),
        largest_limit_bytes=demand.largest_limit_bytes,
    )


def multi_device_candidate(host: HostState, query: PlacementQuery) -> Candidate | None:
    """Returns the first n devices of one kind of a host on which a task fits, or None."""
    count = query.requirements.device_count
    for kind in ("gpu", "cpu"):
        fitting = [
            device
            for device in host.matching_devices(query.requirements)
            if device.spec.kind == kind
            and device.takes_tasks
            and query.is_usable(device)
            and _fits_alone(host, device, query)
        ]
        if len(fitting) >= count:
            fitting.sort(key=lambda device: (query.rules.sort_key(device), device.rank))
            candidate = candidate_on(host, tuple(fitting[:count]), query)
            if candidate is not None:
                return candidate
    return None


def _fits_alone(host: HostState, device: DeviceState, query: PlacementQuery) -> bool:
    if device.is_gpu:
        demand, admission = query.demand.cuda, query.rules.admission
        return reservable_device_bytes(host, device, query.requirements, demand, admission) is not None
    return not device.bookings


def candidate_behind(host: HostState, device: DeviceState, query: PlacementQuery) -> Candidate | None:
    """Returns the place after the tasks that run on a device, or None."""
    demand, admission = query.demand, query.rules.admission
    bookings = device.bookings.values()
    if not bookings or any(other.nominated for other in bookings):
        return None
    if not device.takes_one_behind(query.expected_ms):
        return None
    if not device.ends or all(other.stopping for other in bookings) or not host.has_room(admission):
        return None
    cuda = 0
    if device.is_gpu:
        available = device.spec.memory_bytes - device.foreign_bytes
        wanted = demand.cuda.within(device_limit(host.worker, device.spec, query.requirements.task_type))
        if wanted is None:
            return None
        cuda = wanted
        if not demand.cuda.is_user_given and device.spec.memory_bytes:
            cuda = min(cuda, available)
        if device.spec.memory_bytes and cuda > available:
            return None
    elif host.worker.memory_bytes and demand.memory.source == "default" and host.free_bytes <= 0:
        return None
    memory = reservable_host_bytes(host, (device,), query)
    if memory is None:
        return None
    return Candidate(host, (device,), _reservation(memory, cuda, demand, device.is_gpu))


class CandidateScan:
    """The places for tasks of one scheduling class, best first; what does not fit is not tried again.

    That is correct as long as devices only fill up while the scan is used. `key` orders devices, `fit`
    returns the place on a device (on its host, for several devices), or None.
    """

    def __init__(
        self,
        devices: Iterable[tuple[HostState, DeviceState]],
        key: Callable[[DeviceState], float],
        fit: Callable[[HostState, DeviceState], Candidate | None],
    ) -> None:
        self._heap = [(key(device), device.rank, host, device) for host, device in devices]
        heapq.heapify(self._heap)
        self._key = key
        self._fit = fit

    def best(self) -> Candidate | None:
        """Returns the best place that is free now, None if there is none."""
        heap = self._heap
        while heap:
            key, rank, host, device = heap[0]
            now = self._key(device)
            if now > key:
                heapq.heapreplace(heap, (now, rank, host, device))
                continue
            candidate = self._fit(host, device)
            if candidate is not None:
                return candidate
            heapq.heappop(heap)
        return None


class FirstFitScan:
    """The same for devices that are already in order: it checks only as many of them as it needs."""

    def __init__(
        self,
        devices: Iterable[tuple[HostState, DeviceState]],
        fit: Callable[[HostState, DeviceState], Candidate | None],
    ) -> None:
        self._devices = iter(devices)
        self._next = next(self._devices, None)
        self._fit = fit

    def best(self) -> Candidate | None:
        """Returns the best place that is free now, None if there is none."""
        while self._next is not None:
            candidate = self._fit(*self._next)
            if candidate is not None:
                return candidate
            self._next = next(self._devices, None)
        return None


class HostScan:
    """The same for tasks that take no device: it checks only as many hosts as it needs, in their order."""

    def __init__(self, hosts: Iterable[HostState], query: PlacementQuery) -> None:
        self._hosts = [host for host in sorted(hosts, key=_rank) if host.serves(query.requirements)]
        self._query = query

    def best(self) -> Candidate | None:
        """Returns the best place that is free now, None if there is none."""
        while self._hosts:
            host = self._hosts[0]
            if self._query.is_usable(host) and host.has_room(self._query.rules.admission):
                candidate = candidate_on(host, (), self._query)
                if candidate is not None:
                    return candidate
            self._hosts.pop(0)
        return None


Scan = CandidateScan | FirstFitScan | HostScan


def scan_free(hosts: Sequence[HostState], query: PlacementQuery) -> Scan:
    """Scans the devices that have room now, or the hosts for tasks that take none."""
    if query.requirements.device_count == 0:
        return HostScan(hosts, query)

    def fit(host: HostState, device: DeviceState) -> Candidate | None:
        if query.requirements.device_count > 1:
            return multi_device_candidate(host, query)
        return candidate_on(host, (device,), query)

    if query.rules.order == "FIRST-FIT":
        return FirstFitScan(_devices_with_room(sorted(hosts, key=_rank), query), fit)
    return CandidateScan(_devices_with_room(hosts, query), query.rules.sort_key, fit)


def _rank(of: HostState | DeviceState) -> int:
    return of.rank


def _devices_with_room(
    hosts: Iterable[HostState], query: PlacementQuery
) -> Iterator[tuple[HostState, DeviceState]]:
    requirements, rules = query.requirements, query.rules
    least_bytes = least_gpu_bytes(requirements, query.demand)
    for host in hosts:
        open_devices = host.open_devices
        if not (open_devices.idle or open_devices.gpus):
            continue
        free = open_devices.free(requirements, least_bytes)
        if not free or not host.serves(requirements) or not host.has_room(rules.admission):
            continue
        found = sorted([device for device in free if query.is_usable(device)], key=_rank)
        if requirements.device_count == 1:
            yield from ((host, device) for device in found)
        elif len(found) >= requirements.device_count:
            yield host, min(found, key=rules.sort_key)


def least_gpu_bytes(requirements: Requirements, demand: MemoryDemand) -> int:
    """Returns the least room (`DeviceState.room_bytes`) that a GPU must have to be tried, bytes."""
    return MAX_BYTES if requirements.whole_device else demand.cuda.size_bytes


def scan_behind(hosts: Iterable[HostState], query: PlacementQuery) -> CandidateScan:
    """Scans places after running tasks: after the one that has run for the longest first."""
    requirements, admission = query.requirements, query.rules.admission

    def key(device: DeviceState) -> float:
        return float(min((booking.assigned_ms for booking in device.bookings.values()), default=0))

    def fit(host: HostState, device: DeviceState) -> Candidate | None:
        return candidate_behind(host, device, query)

    devices = (
        (host, device)
        for host in hosts
        if host.open_devices.occupied and host.serves(requirements) and host.has_room(admission)
        for device in host.open_devices.behind(requirements)
        if device.takes_one_behind(query.expected_ms) and query.is_usable(device)
    )
    return CandidateScan(devices, key, fit)
