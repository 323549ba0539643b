"""When the disk of a process is low: apart from what watches it, which needs the metrics."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DiskLimits:
    """When a file system is low: `low_percent` of its bytes or inodes are used, or few bytes are free.

    The percentage is that of `df`, which leaves out the blocks that only root may use.
    """

    low_percent: float = 95.0
    low_free_bytes: int = 500 * 1024**2


USUAL_LIMITS = DiskLimits()
