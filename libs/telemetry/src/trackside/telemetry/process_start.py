"""How long the start of this process has taken, from its beginning in the kernel."""

import os
import time
from pathlib import Path

_waits_s: list[float] = []
"""How long the process has waited before it was needed, such as a spare of a service."""


def leave_out(seconds: float) -> None:
    """Leaves out a time in which the process has waited and not started."""
    _waits_s.append(seconds)


def running_s() -> float:
    """Returns for how long this process has run, but for what was left out, s. Source: proc(5)."""
    fields = Path("/proc/self/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    began_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - began_s - sum(_waits_s))
