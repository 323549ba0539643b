"""Which limit of memory a killed process hit: that of its type, of the worker's cgroup, or of the host."""

from pathlib import Path

import pytest

from trackside.contracts.resources import MemoryLimit
from trackside.worker.attempts.cgroups import CgroupMemory
from trackside.worker.attempts.memory_at_end import memory_at_end
from trackside.worker.attempts.memory_cap import MemoryCap, memory_cap
from trackside.worker.attempts.memory_pressure import MemoryPressure
from trackside.worker.catalogue.task_catalogue import TaskType
from trackside.worker.host.usage import HostMemory

MIB, GIB = 2**20, 2**30
ROOMY = HostMemory(16 * GIB, 15 * GIB)
FULL = HostMemory(16 * GIB, 100 * MIB)
MAX_MEMORY = MemoryCap("max_memory", 300 * MIB)
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
    assert memory_at_end(counted, pressure, 80 * MIB, MAX_MEMORY).limit == limit


def test_a_task_that_was_killed_at_its_limit_has_used_that_much_and_no_more(tmp_path: Path) -> None:
    """One that was killed at 300 MiB showed 603: what the worker had loaded before was counted twice."""
    pressure = MemoryPressure(tmp_path)
    pressure.record(ROOMY)
    found = memory_at_end(CgroupMemory(True, 300 * MIB, 300 * MIB), pressure, 603 * MIB, MAX_MEMORY)
    assert (found.used_bytes, found.hit) == (300 * MIB, {"limit": "max_memory", "limit_bytes": 300 * MIB})
    assert (found.available_bytes, found.total_bytes) == (15 * GIB, 16 * GIB)


@pytest.mark.parametrize(
    ("factor", "allowed", "reserved", "cap"),
    [
        (None, None, 100, None),
        (None, 300, 100, MemoryCap("max_memory", 300 * MIB)),
        (1.5, None, 100, MemoryCap("estimate", 150 * MIB, 100 * MIB, 1.5)),
        (1.5, 300, 100, MemoryCap("estimate", 150 * MIB, 100 * MIB, 1.5)),
        (1.5, 120, 100, MemoryCap("max_memory", 120 * MIB, 100 * MIB, 1.5)),
        (1.5, None, 0, None),
    ],
)
def test_a_task_may_use_its_estimate_times_the_factor_and_no_more_than_its_type(
    factor: float | None, allowed: int | None, reserved: int, cap: MemoryCap | None
) -> None:
    limit = None if allowed is None else allowed * MIB
    task_type = TaskType("fit", max_memory_bytes=limit, enforce_factor=factor)
    assert memory_cap(task_type, reserved * MIB) == cap


def test_the_end_of_a_task_that_used_more_than_its_estimate_says_what_to_do(tmp_path: Path) -> None:
    pressure = MemoryPressure(tmp_path)
    pressure.record(ROOMY)
    watched = MemoryCap("estimate", 120 * MIB, 100 * MIB, 1.2, exceeded_bytes=150 * MIB)
    found = memory_at_end(None, pressure, 130 * MIB, watched)
    assert found.hit == {"limit": "estimate", "limit_bytes": 120 * MIB}
    assert found.reason == (
        "killed at 120 MiB, 1.2 times its estimate of 100 MiB (`enforce: estimate` of its task type): the "
        "task used 150 MiB, the host had 15 GiB of 16 GiB left; request what it needs with estimate_memory, "
        "or raise enforce_factor of its task type"
    )
    in_cgroup = MemoryCap("estimate", 120 * MIB, 100 * MIB, 1.2)
    counted = CgroupMemory(True, 120 * MIB, 120 * MIB)
    assert memory_at_end(counted, pressure, 90 * MIB, in_cgroup).hit == found.hit
