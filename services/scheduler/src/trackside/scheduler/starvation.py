"""Where a place is reserved for a task that others have overtaken for too long. Pure."""

from collections.abc import Iterable

from trackside.contracts.tasks import Reservation
from trackside.scheduler.estimates import MemoryDemand
from trackside.scheduler.occupancy import DeviceState, HostState
from trackside.scheduler.placement import Candidate, PlacementQuery
from trackside.scheduler.requirements import Requirements


def reserve_place(hosts: Iterable[HostState], query: PlacementQuery) -> Candidate | None:
    """Returns the devices of one host on which the fewest tasks must end before a task fits, or None."""
    requirements, demand = query.requirements, query.demand
    best: tuple[tuple[int, int, int], Candidate] | None = None
    for host in hosts:
        if not host.serves(requirements) or not host.open or _exceeds_host(host, demand):
            continue
        for kind in ("gpu", "cpu"):
            devices = [
                device
                for device in host.matching_devices(requirements)
                if device.spec.kind == kind and query.is_usable(device) and not _too_small(device, demand)
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


def _too_small(device: DeviceState, demand: MemoryDemand) -> bool:
    """Returns whether a device is too small for what is known to be needed."""
    return (
        device.is_gpu
        and demand.cuda.source != "default"
        and 0 < device.spec.memory_bytes < demand.cuda.size_bytes
    )


def _exceeds_host(host: HostState, demand: MemoryDemand) -> bool:
    return demand.memory.source != "default" and 0 < host.worker.memory_bytes < demand.memory.size_bytes
