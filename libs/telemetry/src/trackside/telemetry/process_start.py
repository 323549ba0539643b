"""The start of this process, how long it has taken and what ends it cleanly; how any process has ended."""

import os
import resource
import signal
import time
from pathlib import Path
from types import FrameType

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
"""What ends a service cleanly; SIGUSR1 has a worker hand its tasks over to the next one."""
_NO_PROGRAM = 1
"""A limit of 1 byte, unlike 0, also keeps the kernel from piping a dump to a program: see core(5)."""
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


def end_core_dumps() -> None:
    """Ends core dumps of this process and those that it starts, to a file and to a program."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    limit = _NO_PROGRAM if hard == resource.RLIM_INFINITY else min(hard, _NO_PROGRAM)
    resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))


def describe_exit(code: int) -> str:
    """Returns how a process ended, such as `was killed by SIGKILL`; the code is negative for a signal."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def end_cleanly() -> None:
    """Makes these signals end the process with 0, until its event loop takes them; call it before imports."""
    for number in STOP_SIGNALS:
        signal.signal(number, _end)


def _end(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)  # nothing has begun that could be left unfinished, and an import may catch SystemExit
