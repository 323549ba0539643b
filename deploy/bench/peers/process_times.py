"""The processor time of all processes that a program ever had, also of those that ended (Linux only).

Ray starts processes from other threads than the first one, and waits for none of them, so neither the list of
a process's children nor its own count of their time has them.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.cpu_time import TICK_MS

EVERY_S = 0.1
PARENT, USER, SYSTEM, STARTED = 1, 11, 12, 19
"""The fields of /proc/PID/stat after the name."""
ProcessKey = tuple[int, int]


@dataclass(slots=True)
class ProcessTimes:
    """The newest time of each process below `root`, by its pid and when it started."""

    root: int
    ticks: dict[ProcessKey, int] = field(default_factory=dict)

    def used_ms(self) -> float:
        """Returns the ms that all of them have used until now."""
        self._read()
        return sum(self.ticks.values()) * TICK_MS

    async def watch(self) -> None:
        """Reads all times again and again until it is cancelled."""
        while True:
            self._read()
            await asyncio.sleep(EVERY_S)

    def _read(self) -> None:
        found = _all_processes()
        below: dict[int, list[int]] = {}
        for pid, fields in found.items():
            below.setdefault(fields[PARENT], []).append(pid)
        left = [self.root]
        while left:
            pid = left.pop()
            left += below.get(pid, ())
            if fields := found.get(pid, []):
                self.ticks[pid, fields[STARTED]] = fields[USER] + fields[SYSTEM]


@asynccontextmanager
async def watched(root: int) -> AsyncIterator[ProcessTimes]:
    """Watches a process and all below it for as long as the block runs."""
    times = ProcessTimes(root)
    watching = asyncio.create_task(times.watch())
    try:
        yield times
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


def _all_processes() -> dict[int, list[int]]:
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            fields = path.read_text().rpartition(")")[2].split()
            found[int(path.parent.name)] = [0, *map(int, fields[1 : STARTED + 1])]
    return found
