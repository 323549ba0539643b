"""Where a place is reserved for a task that others have overtaken for too long. Pure."""

from collections.abc import Iterable

from trackside.contracts.tasks.tasks import Reservation
from trackside.scheduler.hosts.device_state import DeviceState, device_limit, host_limit
from trackside.scheduler.hosts.estimates import MemoryDemand
from trackside.scheduler.hosts.occupancy import HostState
from trackside.scheduler.hosts.requirements import Requirements
from trackside.scheduler.placing.placement import Candidate, PlacementQuery


def reserve_place(hosts: Iterable[HostState], query: PlacementQuery) -> Candidate | None:
    """Returns the devices of one host on which the fewest tasks must end before a task fits, or None."""
    requirements, demand = query.requirements, query.demand
    best: tuple[tuple[int, int, int], Candidate] | None = None
    for host in hosts:
        if not host.serves(requirements) or not host.open or _is_small_host(host, query):
            continue
        for kind in ("gpu", "cpu"):
            devices = [
                device
                for device in host.matching_devices(requirements)
                if device.spec.kind == kind
                and device.takes_tasks
                and query.is_usable(device)
                and not _is_small_device(host, device, query)
                and _ends(device, query)
            ]
            if len(devices) < requirements.device_count:
                continue
            devices.sort(key=lambda device: (*_shortage(device, requirements, demand), device.rank))
            chosen = tuple(devices[: requirements.device_count])
            lacking = [_shortage(device, requirements, demand) for device in chosen]
            memory = max(0, demand.memory.size_bytes - host.free_bytes) if host.worker.memory_bytes else 0
            key = (sum(ends for ends, _ in lacking), sum(short for _, short in lacking) + memory, host.rank)
            if best is None or key < best[0]:
                cuda = demand.cuda.size_bytes if kind == "gpu" else 0
                reserved = Reservation(memory_bytes=demand.memory.size_bytes, cuda_memory_bytes=cuda)
                best = (key, Candidate(host, chosen, reserved))
    return None if best is None else best[1]


def _shortage(device: DeviceState, requirements: Requirements, demand: MemoryDemand) -> tuple[int, int]:
    """Returns how many tasks must leave a device at least, and how many bytes are missing."""
    if (
        not device.is_gpu
        or requirements.whole_device
        or any(booking.whole_device for booking in device.bookings.values())
    ):
        return len(device.bookings), 0
    if device.spec.memory_bytes == 0:
        return 0, 0
    short = max(0, demand.cuda.size_bytes - device.free_bytes)
    return int(short > 0), short


def _ends(device: DeviceState, query: PlacementQuery) -> bool:
    """Returns whether a task fits on a device once all that ends there has ended: services stay."""
    staying = [booking for booking in device.bookings.values() if booking.endless and not booking.stopping]
    if not staying:
        return True
    if not device.is_gpu or query.requirements.whole_device or any(each.whole_device for each in staying):
        return False
    taken = device.foreign_bytes + sum(each.cuda_memory_bytes for each in staying)
    return not device.spec.memory_bytes or query.demand.cuda.size_bytes <= device.spec.memory_bytes - taken


def _is_small_device(host: HostState, device: DeviceState, query: PlacementQuery) -> bool:
    """Returns whether a device gives a task less than what is known to be needed."""
    limit = device_limit(host.worker, device.spec, query.requirements.task_type)
    return device.is_gpu and query.demand.cuda.within(limit) is None


def _is_small_host(host: HostState, query: PlacementQuery) -> bool:
    """Returns the same for a host."""
    return query.demand.memory.within(host_limit(host.worker, query.requirements.task_type)) is None
