"""Whether a process was killed because memory ran out (T6), and which limit it hit."""

from pathlib import Path

import pytest

from tests.unit.worker.test_usage import host
from trackside.contracts.tasks.resources import MemoryLimit
from trackside.worker.attempts.memory.cgroups import CgroupMemory
from trackside.worker.attempts.memory.memory_at_end import memory_at_end
from trackside.worker.attempts.memory.memory_cap import MemoryCap, memory_cap
from trackside.worker.attempts.memory.memory_pressure import READINGS_KEPT, MemoryPressure
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


def roomy(folder: Path) -> MemoryPressure:
    pressure = MemoryPressure(folder)
    pressure.record(ROOMY)
    return pressure


def test_a_task_that_was_killed_at_its_limit_has_used_that_much_and_no_more(tmp_path: Path) -> None:
    """One that was killed at 300 MiB showed 603: what the worker had loaded before was counted twice."""
    found = memory_at_end(CgroupMemory(True, 300 * MIB, 300 * MIB), roomy(tmp_path), 603 * MIB, MAX_MEMORY)
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
    pressure = roomy(tmp_path)
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


def killed(root: Path, oom_kill_count: int, files: dict[str, int], cgroup: str = "0::/box\n") -> Path:
    texts = {"proc/vmstat": f"nr_free_pages 5\noom_kill {oom_kill_count}\n", "proc/self/cgroup": cgroup}
    texts |= {name: f"low 0\noom 9\noom_kill {count}\n" for name, count in files.items()}
    return host(root, texts)


@pytest.mark.parametrize(
    ("cgroup", "counts"),
    [
        ("0::/box\n", "sys/fs/cgroup/box/memory.events.local"),
        ("0::/box\n", "sys/fs/cgroup/box/memory.events"),
        ("0::/of/the/host\n", "sys/fs/cgroup/memory.events.local"),
        ("4:cpu,memory:/box\n0::/\n", "sys/fs/cgroup/memory/box/memory.oom_control"),
        ("4:memory:/of/the/host\n0::/\n", "sys/fs/cgroup/memory/memory.oom_control"),
        ("4:cpu:/\n", "proc/vmstat"),
        ("", "proc/vmstat"),
    ],
)
def test_t6_a_kill_where_this_process_is_is_seen_for_long(tmp_path: Path, cgroup: str, counts: str) -> None:
    pressure = MemoryPressure(killed(tmp_path, 3, {counts: 3}, cgroup))
    assert not pressure.oom_killed()
    killed(tmp_path, 3, {counts: 4}, cgroup)
    assert pressure.oom_killed()
    for _ in range(READINGS_KEPT - 1):  # they may come between the kill and the question
        pressure.record(ROOMY)
        assert pressure.oom_killed()
    pressure.record(ROOMY)
    assert not pressure.oom_killed()


def test_t6_kills_elsewhere_on_the_host_are_not_ours(tmp_path: Path) -> None:
    """Once, every killed process counted as out of memory for ten seconds after a kill on the host."""
    local, below = (f"sys/fs/cgroup/box/memory.events{end}" for end in (".local", ""))
    pressure = MemoryPressure(killed(tmp_path, 3, {local: 0, below: 0}))
    killed(tmp_path, 4, {local: 0, below: 1})
    assert not pressure.oom_killed()


def test_t6_a_host_that_was_nearly_full_counts_and_one_that_tells_nothing_does_not(tmp_path: Path) -> None:
    pressure = MemoryPressure(killed(tmp_path, 0, {}))
    pressure.record(HostMemory(100, 1))
    for _ in range(READINGS_KEPT - 1):
        pressure.record(ROOMY)
        assert pressure.nearly_full()
    pressure.record(ROOMY)
    assert not pressure.nearly_full()
    pressure = MemoryPressure(tmp_path / "other")
    assert not pressure.oom_killed() and not pressure.nearly_full()
