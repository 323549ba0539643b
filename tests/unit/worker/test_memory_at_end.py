"""Which limit of memory a killed process hit: that of its type, of the worker's cgroup, or of the host."""

from pathlib import Path

import pytest

from trackside.contracts.resources import MemoryLimit
from trackside.worker.attempts.cgroups import CgroupMemory
from trackside.worker.attempts.memory_at_end import memory_at_end
from trackside.worker.attempts.memory_pressure import MemoryPressure
from trackside.worker.host.usage import HostMemory

MIB, GIB = 2**20, 2**30
ROOMY = HostMemory(16 * GIB, 15 * GIB)
FULL = HostMemory(16 * GIB, 100 * MIB)
FULL_CGROUP = HostMemory(4 * GIB, 10 * MIB, "cgroup")


@pytest.mark.parametrize(
    ("counted", "host", "limit"),
    [
        (CgroupMemory(True, 300 * MIB, 300 * MIB), ROOMY, "max_memory"),
        (CgroupMemory(True, 300 * MIB, 299 * MIB), FULL, "max_memory"),
        (CgroupMemory(True, 300 * MIB, 200 * MIB), FULL, "host"),
        (CgroupMemory(True, 300 * MIB, 200 * MIB), FULL_CGROUP, "cgroup"),
        (CgroupMemory(True, 0, 200 * MIB), ROOMY, "host"),
        (CgroupMemory(False, 300 * MIB, 300 * MIB), ROOMY, None),
        (None, FULL, "host"),
        (None, FULL_CGROUP, "cgroup"),
        (None, ROOMY, None),
    ],
)
def test_the_limit_is_where_the_kernel_has_killed_or_where_nothing_was_left(
    tmp_path: Path, counted: CgroupMemory | None, host: HostMemory, limit: MemoryLimit | None
) -> None:
    pressure = MemoryPressure(tmp_path)
    pressure.record(host)
    assert memory_at_end(counted, pressure, 80 * MIB).limit == limit


def test_a_task_that_was_killed_at_its_limit_has_used_that_much_and_no_more(tmp_path: Path) -> None:
    """One that was killed at 300 MiB showed 603: what the worker had loaded before was counted twice."""
    pressure = MemoryPressure(tmp_path)
    pressure.record(ROOMY)
    found = memory_at_end(CgroupMemory(True, 300 * MIB, 300 * MIB), pressure, 603 * MIB)
    assert (found.used_bytes, found.max_bytes) == (300 * MIB, 300 * MIB)
    assert (found.available_bytes, found.total_bytes) == (15 * GIB, 16 * GIB)
