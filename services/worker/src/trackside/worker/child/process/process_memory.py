"""The memory of a task process as it sees itself: current use, peaks, and releasing it."""

import contextlib
import gc
import sys
from pathlib import Path
from typing import Any

from trackside.worker.own_memory import KIB, numbers, without_files

_SELF = Path("/proc/self")
_RESET_PEAK = "5"
"""Source: proc(5), /proc/pid/clear_refs."""
_CHANGED_BYTES = 1_048_576
"""What is shared is read again once the memory has changed by so much: that takes 2 ms with torch loaded."""


class ProcessMemory:
    """Own memory of this process and, where torch uses one, memory of its devices, in bytes.

    To be created when the process has just been forked: all that it shares then is the forkserver's. Later it
    may share memory with processes of the task, too.
    """

    def __init__(self) -> None:
        self._inherited = self._shared = numbers(_SELF / "smaps_rollup", KIB).get("Shared_Dirty", 0)
        self._read_at = without_files(numbers(_SELF / "status", KIB))
        self._of_program = 0

    def record_program(self, peak_bytes: int) -> None:
        """Records the peak of a program that the task runs."""
        self._of_program = max(self._of_program, peak_bytes)

    def peaks(self) -> dict[str, int]:
        """Returns the peaks of this process and of its program since the last reset.

        The kernel keeps the peak of all resident pages: those that aren't own now were not own then, as far
        as is known. The worker measures all processes of a task once per second.
        """
        status = numbers(_SELF / "status", KIB)
        own = self._own_bytes(status) + max(0, status.get("VmHWM", 0) - status.get("VmRSS", 0))
        cuda = torch_cuda()
        devices = range(cuda.device_count()) if cuda is not None else ()
        return {
            "peak_memory_bytes": own + self._of_program,
            "peak_cuda_memory_bytes": max((cuda.max_memory_reserved(each) for each in devices), default=0),
        }

    def reset_peaks(self) -> None:
        """Resets the peaks for the next task, where the kernel permits it."""
        self._of_program = 0
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
            "memory_bytes": self._own_bytes(numbers(_SELF / "status", KIB)),
            "cuda_memory_bytes": max((cuda.memory_reserved(each) for each in devices), default=0),
        }

    def _own_bytes(self, status: dict[str, int]) -> int:
        found = without_files(status)
        if abs(found - self._read_at) > _CHANGED_BYTES:
            self._shared = min(self._inherited, numbers(_SELF / "smaps_rollup", KIB).get("Shared_Dirty", 0))
            self._read_at = found
        return max(0, found - self._shared)


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
