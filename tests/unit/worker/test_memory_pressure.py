"""Whether a process was killed because memory ran out (T6)."""

from pathlib import Path

import pytest

from trackside.worker.attempts.memory_pressure import READINGS_KEPT, MemoryPressure
from trackside.worker.host.usage import HostMemory

ROOMY = HostMemory(100, 50)


def host(root: Path, oom_kill_count: int, files: dict[str, int], cgroup: str = "0::/box\n") -> Path:
    texts = {"proc/vmstat": f"nr_free_pages 5\noom_kill {oom_kill_count}\n", "proc/self/cgroup": cgroup}
    texts |= {name: f"low 0\noom 9\noom_kill {count}\n" for name, count in files.items()}
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


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
def test_t6_a_kill_where_this_process_is_is_seen_for_some_looks(
    tmp_path: Path, cgroup: str, counts: str
) -> None:
    pressure = MemoryPressure(host(tmp_path, 3, {counts: 3}, cgroup))
    assert not pressure.oom_killed()
    host(tmp_path, 3, {counts: 4}, cgroup)
    assert pressure.oom_killed()
    for _ in range(READINGS_KEPT - 1):  # they may come between the kill and the question
        pressure.record(ROOMY)
        assert pressure.oom_killed()
    pressure.record(ROOMY)
    assert not pressure.oom_killed()


def test_t6_kills_elsewhere_on_the_host_are_not_ours(tmp_path: Path) -> None:
    """Once, every killed process counted as out of memory for ten seconds after a kill on the host."""
    local, below = (f"sys/fs/cgroup/box/memory.events{end}" for end in (".local", ""))
    pressure = MemoryPressure(host(tmp_path, 3, {local: 0, below: 0}))
    host(tmp_path, 4, {local: 0, below: 1})
    assert not pressure.oom_killed()


def test_t6_a_host_that_was_nearly_full_counts(tmp_path: Path) -> None:
    pressure = MemoryPressure(host(tmp_path, 0, {}))
    pressure.record(HostMemory(100, 1))
    for _ in range(READINGS_KEPT - 1):
        pressure.record(ROOMY)
        assert pressure.nearly_full()
    pressure.record(ROOMY)
    assert not pressure.nearly_full()


def test_a_host_that_tells_nothing_is_never_blamed(tmp_path: Path) -> None:
    pressure = MemoryPressure(tmp_path)
    assert not pressure.oom_killed() and not pressure.nearly_full()
