"""How a reservation grows after it was too small: pure."""

from typing import Literal

from trackside.contracts.tasks import Reservation

GROWTH = 1.5
HEADROOM = 1.1


def raised(reserved: Reservation, resource: Literal["host", "device"], peak_bytes: int) -> Reservation:
    """Gives what an attempt shall have that ran out of memory: half as much again, and 10% over its peak.

    The scheduler and the worker cut it to what a host or a device has: then it runs alone there.
    """
    had = reserved.memory_bytes if resource == "host" else reserved.cuda_memory_bytes
    wanted = max(int(had * GROWTH), int(peak_bytes * HEADROOM))
    field = "memory_bytes" if resource == "host" else "cuda_memory_bytes"
    return reserved.model_copy(update={field: wanted, "estimated_by": "raised"})
