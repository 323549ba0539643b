"""The processor time of each process of the stack and its children (Linux only)."""

import os
from collections.abc import Mapping
from pathlib import Path

from trackside.embedded.processes import children_of
from trackside.embedded.stack import Stack

TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


def used_ms(stack: Stack) -> dict[str, float]:
    """Returns the processor time in ms of each program that runs, with the children that it has or had."""
    running = {name: each.pid for name, each in stack.status.processes.items() if each.state == "ready"}
    return {name: tree_ms(pid) for name, pid in running.items() if pid is not None}


def tree_ms(pid: int) -> float:
    """Returns the processor time in ms of a process and of all below it."""
    return _own_ms(pid) + sum(tree_ms(child) for child in children_of(pid))


def _own_ms(pid: int) -> float:
    """Returns the time of one process and of its children that were waited for; 0 for one that is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) * TICK_MS


def spent(before: Mapping[str, float], after: Mapping[str, float], count: int) -> dict[str, float]:
    """Returns the ms that each program used for one of `count`, most first."""
    each = {name: (after[name] - before.get(name, 0.0)) / count for name in after}
    return dict(sorted(each.items(), key=lambda item: -item[1]))
