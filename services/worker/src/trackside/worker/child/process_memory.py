"""The memory of a task process as it sees itself: current use, peaks, and releasing it."""

import contextlib
import gc
import resource
import sys
from pathlib import Path
from typing import Any

KIB = 1_024
_RESET_PEAK = "5"
"""Source: proc(5), /proc/pid/clear_refs."""


class ProcessMemory:
    """Memory of this process and, where torch uses one, of its devices, in bytes."""

    def __init__(self) -> None:
        self._of_children = 0

    def peaks(self) -> dict[str, int]:
        """Returns the peaks of this process, or of a child that it has reaped, since the last reset."""
        own, others = _peak_bytes(resource.RUSAGE_SELF), _peak_bytes(resource.RUSAGE_CHILDREN)
        cuda = torch_cuda()
        devices = range(cuda.device_count()) if cuda is not None else ()
        return {
            # The kernel never resets the peak of children: only a higher one belongs to this task.
            "peak_memory_bytes": max(own, others if others > self._of_children else 0),
            "peak_cuda_memory_bytes": max((cuda.max_memory_reserved(each) for each in devices), default=0),
        }

    def reset_peaks(self) -> None:
        """Resets the peaks for the next task, where the kernel permits it."""
        self._of_children = _peak_bytes(resource.RUSAGE_CHILDREN)
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text(_RESET_PEAK)
        cuda = torch_cuda()
        for each in range(cuda.device_count()) if cuda is not None else ():
            cuda.reset_peak_memory_stats(each)

    def current(self) -> dict[str, int]:
        """Returns what this process uses now; of devices the most that it uses on one."""
        cuda = torch_cuda()
        devices = range(cuda.device_count()) if cuda is not None else ()
        return {
            "memory_bytes": int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize(),
            "cuda_memory_bytes": max((cuda.memory_reserved(each) for each in devices), default=0),
        }


def release_memory() -> None:
    """Frees unreferenced memory on the host and, if torch uses one, on the device."""
    gc.collect()
    cuda = torch_cuda()
    if cuda is not None:
        cuda.empty_cache()


def torch_cuda() -> Any:
    """Returns torch.cuda if this process has used it, else None; never imports it."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda if cuda is not None and cuda.is_initialized() else None


def _peak_bytes(who: int) -> int:
    return resource.getrusage(who).ru_maxrss * KIB
