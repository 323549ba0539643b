"""Cgroups of tasks' processes: on real ones where the host lets us, and on folders that look like some."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trackside.worker.attempts.memory.cgroups import Cgroups, cgroups_of
from trackside.worker.attempts.memory.memory_cap import MemoryCap

MIB = 2**20
WAITS = "import sys; sys.stdin.readline(); bytearray(int(sys.argv[1])); print('fits')"


def host(root: Path, cgroup: str, *folders: str) -> Path:
    """Makes a root folder with these cgroups."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(cgroup)
    for folder in folders:
        (root / "sys/fs/cgroup" / folder).mkdir(parents=True)
    return root


def own(data_dir: Path) -> str:
    place = data_dir.stat()
    return f"trackside-w1-{place.st_dev:x}-{place.st_ino:x}"


def made(root: Path) -> list[str]:
    return sorted(path.name for path in root.rglob("trackside-*"))


def test_a_host_without_cgroups_that_may_be_written_to_runs_tasks_without(tmp_path: Path) -> None:
    for number, cgroup in enumerate(("", "0::/\n", "3:cpu:/\n")):
        root = host(tmp_path / str(number), cgroup)
        assert cgroups_of("w1", tmp_path, 10, root).folders == {}
    assert cgroups_of("w1", tmp_path, 10, tmp_path / "nothing").folders == {}
    root = host(tmp_path, "4:memory:/x\n", "memory")
    (root / "sys/fs/cgroup/memory/x").write_text("no folder")
    (root / "sys/fs/cgroup/memory" / own(tmp_path)).write_text("in the way")
    assert cgroups_of("w1", tmp_path, 10, root).folders == {}


def test_the_cgroup_of_this_process_is_the_parent_where_it_can_be_seen(tmp_path: Path) -> None:
    root = host(tmp_path, "4:memory:/a/b\n8:pids:/of/the/host\n", "memory/a/b", "pids")
    found = cgroups_of("w1", tmp_path, 10, root)
    base, name = root / "sys/fs/cgroup", own(tmp_path)
    assert found.folders == {"memory": base / "memory/a/b" / name, "pids": base / "pids" / name}
    assert made(root) == [name, name]
    found.close()
    assert made(root) == [], "a worker that ends leaves none"


def test_a_delegated_cgroup_of_version_2_has_its_controllers_on(tmp_path: Path) -> None:
    mine = f"mine/{own(tmp_path)}"
    root = host(tmp_path, "0::/mine\n", mine)
    base = root / "sys/fs/cgroup"
    (base / "cgroup.controllers").write_text("memory pids")
    for folder in (base / "mine", base / mine):
        (folder / "cgroup.subtree_control").write_text("")
    found = cgroups_of("w1", tmp_path, 10, root)
    assert (found.version, set(found.folders.values())) == (2, {base / mine})
    assert (base / mine / "cgroup.subtree_control").read_text() == "+memory +pids"


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Cgroups]:
    found = cgroups_of("w1", tmp_path, 64)
    if "memory" not in found.folders:
        pytest.skip("this host has no memory cgroup that may be written to")
    yield found
    found.close()
    assert not any(folder.exists() for folder in found.folders.values())


def killed_in(cgroups: Cgroups, pid: int) -> bool | None:
    counted = cgroups.memory(pid)
    return None if counted is None else counted.killed


def waiting(size: int) -> subprocess.Popen[str]:
    """Starts a process that takes so many bytes once it is told to."""
    command = [sys.executable, "-S", "-c", WAITS, str(size)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


async def test_what_takes_more_than_its_type_may_is_killed_and_nothing_else(real: Cgroups) -> None:
    exits: list[tuple[int, bool | None]] = []
    for size in (400 * MIB, 4 * MIB):
        with waiting(size) as process:
            exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            await real.enter(process.pid, exited, MemoryCap("max_memory", 100 * MIB))
            folders = [folder / str(process.pid) for folder in real.folders.values()]
            assert all(str(process.pid) in (folder / "cgroup.procs").read_text() for folder in folders)
            await asyncio.to_thread(process.communicate, "\n", 60)
            exited.set_result(process.returncode)
        await asyncio.sleep(0)
        exits.append((process.returncode, killed_in(real, process.pid)))
        assert not any(folder.exists() for folder in folders), "its cgroup goes with it"
    assert exits == [(-9, True), (0, False)]


@pytest.mark.parametrize(
    ("version", "used", "prefix"), [(1, "memory.usage_in_bytes", "total_"), (2, "memory.current", "")]
)
def test_pages_of_files_are_not_in_use(tmp_path: Path, version: int, used: str, prefix: str) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / used).write_text("1000\n")
    (tmp_path / "7" / "memory.stat").write_text(f"{prefix}active_file 100\n{prefix}inactive_file 300\n")
    found = Cgroups(dict.fromkeys(("memory", "pids"), tmp_path), version)
    assert (found.used_bytes(7), found.used_bytes(8)) == (600, None)
    assert Cgroups({}, 0).used_bytes(7) is None


async def test_a_kill_is_blamed_on_the_task_it_came_in_and_on_no_later_one(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    events = tmp_path / "7" / "memory.events"
    for name in ("memory.max", "pids.max", "cgroup.procs"):
        (tmp_path / "7" / name).touch()
    events.write_text("oom 1\noom_kill 0\n")
    found = Cgroups(dict.fromkeys(("memory", "pids"), tmp_path), 2)
    gone = asyncio.get_running_loop().create_future()
    assert killed_in(found, 8) is None, "it has no cgroup"
    cap = MemoryCap("max_memory", MIB)
    await found.enter(7, gone, cap)
    assert killed_in(found, 7) is False
    events.write_text("oom 1\noom_kill 1\n")
    assert killed_in(found, 7)
    await found.enter(7, gone, cap)
    assert killed_in(found, 7) is False, "the process has another task now"


async def test_a_process_has_the_limit_of_the_task_that_it_runs_now(real: Cgroups) -> None:
    with waiting(100 * MIB) as process:
        exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        limits: list[int] = []
        for size in (50, 0, 60):
            cap = MemoryCap("estimate", size * MIB) if size else None
            await real.enter(process.pid, exited, cap)
            counted = real.memory(process.pid)
            limits.append(counted.limit_bytes if counted is not None else -1)
        await real.set_limit(process.pid, MemoryCap("estimate", 200 * MIB))
        out, _ = await asyncio.to_thread(process.communicate, "\n", 60)
        exited.set_result(process.returncode)
    await asyncio.sleep(0)
    assert limits == [50 * MIB, 0, 60 * MIB]
    assert (out, process.returncode) == ("fits\n", 0), "its limit was raised while it ran"


async def test_what_an_earlier_worker_left_in_its_cgroups_is_killed(real: Cgroups, tmp_path: Path) -> None:
    with waiting(1) as process:
        await real.enter(process.pid, asyncio.get_running_loop().create_future(), None)
        again = cgroups_of("w1", tmp_path, 64)
        assert await asyncio.to_thread(process.wait, 60) == -9
        assert process.stdin is not None
        process.stdin.close()
    again.clear()
    assert not any((folder / str(process.pid)).exists() for folder in real.folders.values())


async def test_a_worker_of_the_same_name_elsewhere_leaves_them_alone(real: Cgroups, tmp_path: Path) -> None:
    """It killed them, and the task was called failed, not out of memory: its cgroup was gone too."""
    with waiting(1) as process:
        await real.enter(process.pid, asyncio.get_running_loop().create_future(), None)
        (tmp_path / "other").mkdir()
        cgroups_of("w1", tmp_path / "other", 64).close()
        out, _ = await asyncio.to_thread(process.communicate, "\n", 60)
    assert (out, process.returncode) == ("fits\n", 0)


async def test_a_task_without_limits_has_no_cgroup(real: Cgroups) -> None:
    real.max_processes = 0
    await real.enter(os.getpid(), asyncio.get_running_loop().create_future(), None)
    assert not any((folder / str(os.getpid())).exists() for folder in real.folders.values())
