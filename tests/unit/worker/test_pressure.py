"""Whether a process was killed because memory ran out (T6)."""

from pathlib import Path

import pytest

from trackside.worker.pressure import LOOKS, Pressure
from trackside.worker.usage import HostMemory

ROOMY = HostMemory(100, 50)


def host(root: Path, kills: int, cgroup: str = "", cgroup_kills: int = 0) -> Path:
    """Makes a root folder; `cgroup` is the file where ours counts, below the mount, if it does."""
    files = {
        "proc/vmstat": f"nr_free_pages 5\noom_kill {kills}\n",
        "proc/self/cgroup": "4:memory:/a\n0::/b\n",
    }
    if cgroup:
        files[f"sys/fs/cgroup/{cgroup}"] = f"low 0\noom 9\noom_kill {cgroup_kills}\n"
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_t6_a_kill_by_the_kernel_since_the_last_looks_is_seen(tmp_path: Path) -> None:
    pressure = Pressure(host(tmp_path, 3))
    assert not pressure.memory_ran_out()
    host(tmp_path, 4)
    assert pressure.memory_ran_out()
    for _ in range(LOOKS - 1):  # they may come between the kill and the question
        pressure.look(ROOMY)
        assert pressure.memory_ran_out()
    pressure.look(ROOMY)
    assert not pressure.memory_ran_out()


@pytest.mark.parametrize(
    "cgroup", ["b/memory.events", "memory.events", "memory/a/memory.oom_control", "memory/memory.oom_control"]
)
def test_t6_a_kill_within_our_cgroup_is_seen_and_none_of_somebody_elses(tmp_path: Path, cgroup: str) -> None:
    """The host counts those in every cgroup: of other containers, of tasks with a limit of their own."""
    pressure = Pressure(host(tmp_path, 0, cgroup))
    host(tmp_path, 1, cgroup)
    assert not pressure.memory_ran_out()
    host(tmp_path, 2, cgroup, cgroup_kills=1)
    assert pressure.memory_ran_out()


def test_t6_a_host_that_was_nearly_full_counts(tmp_path: Path) -> None:
    pressure = Pressure(host(tmp_path, 0))
    pressure.look(HostMemory(100, 1))
    for _ in range(LOOKS - 1):
        pressure.look(ROOMY)
        assert pressure.memory_ran_out()
    pressure.look(ROOMY)
    assert not pressure.memory_ran_out()


def test_a_host_that_tells_nothing_is_never_blamed(tmp_path: Path) -> None:
    assert not Pressure(tmp_path).memory_ran_out()
