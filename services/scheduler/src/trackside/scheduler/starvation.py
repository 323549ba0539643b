"""Where a place is kept for a task that others have gone before for too long. Pure."""

from collections.abc import Callable, Iterable

from trackside.contracts.tasks import Reservation
from trackside.scheduler.estimates import Want
from trackside.scheduler.occupancy import Host, Slot
from trackside.scheduler.placement import Candidate
from trackside.scheduler.requirements import Requirements


def reserve_place(
    hosts: Iterable[Host], requirements: Requirements, want: Want, usable: Callable[[Slot], bool]
) -> Candidate | None:
    """Gives the devices of one host on which the least must end before a task fits, or None."""
    best: tuple[tuple[int, int, int], Candidate] | None = None
    for host in hosts:
        if not host.serves(requirements) or not host.open or _never_on(host, want):
            continue
        for kind in ("gpu", "cpu"):
            slots = [
                slot
                for slot in host.matching_devices(requirements)
                if slot.device.kind == kind and usable(slot) and not _too_small(slot, want)
            ]
            if len(slots) < requirements.devices:
                continue
            slots.sort(key=lambda slot: (*_missing(slot, requirements, want), slot.rank))
            chosen = tuple(slots[: requirements.devices])
            lacking = [_missing(slot, requirements, want) for slot in chosen]
            memory = max(0, want.memory.size_bytes - host.free) if host.worker.memory_bytes else 0
            key = (sum(ends for ends, _ in lacking), sum(short for _, short in lacking) + memory, host.rank)
            if best is None or key < best[0]:
                cuda = want.cuda.size_bytes if kind == "gpu" else 0
                reserved = Reservation(memory_bytes=want.memory.size_bytes, cuda_memory_bytes=cuda)
                best = (key, Candidate(host, chosen, reserved))
    return None if best is None else best[1]


def _missing(slot: Slot, requirements: Requirements, want: Want) -> tuple[int, int]:
    """Gives how many tasks must leave a device for certain, and how many bytes are missing."""
    if not slot.is_gpu or requirements.whole or any(booking.whole for booking in slot.bookings.values()):
        return len(slot.bookings), 0
    if slot.device.memory_bytes == 0:
        return 0, 0
    short = max(0, want.cuda.size_bytes - slot.free)
    return int(short > 0), short


def _too_small(slot: Slot, want: Want) -> bool:
    """Says whether a device is too small for what is known to be needed."""
    return slot.is_gpu and want.cuda.by != "default" and 0 < slot.device.memory_bytes < want.cuda.size_bytes


def _never_on(host: Host, want: Want) -> bool:
    return want.memory.by != "default" and 0 < host.worker.memory_bytes < want.memory.size_bytes
