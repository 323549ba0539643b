"""What a host and its tasks use, from the texts of /proc; what of a device is others', which has failed."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.worker.host.nvml import GpuError, GpuProcess, GpuReading
from trackside.worker.host.sampler import (
    DeviceHealth,
    HostSample,
    OwnedSession,
    device_readings,
    next_health,
    task_uses,
)
from trackside.worker.host.usage import (
    CpuTime,
    HostMemory,
    SessionUsage,
    Usage,
    cpu_percent,
    foreign_bytes,
    foreign_on_host,
    highest_usage,
    host_cpu_percent,
    memory_pool,
    parse_stat,
    read_cpu,
    read_host,
    read_sessions,
    usage_of,
)

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
MEMINFO = "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    600 kB\n"


def reading(used: int = 0, *processes: tuple[int, int | None], reserved: int = 0) -> GpuReading:
    named = tuple(GpuProcess(pid, size) for pid, size in processes)
    return GpuReading(used, reserved, 0, named)


def host(root: Path, **files: str) -> Path:
    """Writes files, with `_` for `/` where a name has two, below a folder."""
    for name, text in {"proc__meminfo": MEMINFO, **files}.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def process(
    root: Path, pid: int, *, session: int, ticks: int = 0, pages: int = 0, name: str = "python"
) -> None:
    fields = ["S", "1", str(session), str(session), *["0"] * 7, str(ticks), *["0"] * 9, str(pages)]
    host(root, **{f"proc__{pid}__stat": f"{pid} ({name}) {' '.join(fields)} 0 0\n"})


def test_memory_is_the_hosts_or_the_cgroups_where_that_is_less_without_its_cache(
    tmp_path: Path,
) -> None:
    assert read_host(host(tmp_path)) == HostMemory(1000 * 1024, 600 * 1024)
    root = host(
        tmp_path,
        proc__self__cgroup="0::/a/b\n",
        **{
            "sys__fs__cgroup__a__b__memory.max": "max\n",
            "sys__fs__cgroup__a__b__memory.current": "5\n",
            "sys__fs__cgroup__a__memory.max": "500000\n",
            "sys__fs__cgroup__a__memory.current": "300000\n",
            "sys__fs__cgroup__a__memory.stat": "anon 7\ninactive_file 100000\n",
        },
    )
    assert read_host(root) == HostMemory(500_000, 300_000)
    root = host(
        tmp_path / "first",
        proc__self__cgroup="9:cpu:/x\n4:memory:/docker/abc\n0::/\n",
        **{
            "sys__fs__cgroup__memory__memory.limit_in_bytes": "400000\n",
            "sys__fs__cgroup__memory__memory.usage_in_bytes": "500000\n",
        },
    )
    assert read_host(root) == HostMemory(400_000, 0)


def test_the_hosts_cpu_is_the_mean_since_the_last_reading_a_task_s_in_percent_of_a_core(
    tmp_path: Path,
) -> None:
    before = read_cpu(host(tmp_path, proc__stat="cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2\n"))
    now = read_cpu(host(tmp_path, proc__stat="cpu  160 0 60 820 60 0 0 0 0 0\n"))
    assert (before, now) == (CpuTime(150, 1000), CpuTime(220, 1100))
    assert host_cpu_percent(before, now) == 70.0
    assert host_cpu_percent(now, now) == 0.0
    assert read_cpu(tmp_path / "nowhere") == CpuTime()
    assert cpu_percent(SessionUsage(cpu_s=1.0), SessionUsage(cpu_s=4.0), 2.0) == 150.0
    assert cpu_percent(SessionUsage(cpu_s=4.0), SessionUsage(cpu_s=1.0), 2.0) == 0.0
    assert cpu_percent(None, SessionUsage(cpu_s=1.0), 2.0) == 0.0
    assert cpu_percent(SessionUsage(), SessionUsage(cpu_s=1.0), 0.0) == 0.0


def test_the_name_of_a_process_may_hold_any_character(tmp_path: Path) -> None:
    process(tmp_path, 7, session=5, ticks=3 * TICKS_PER_S, pages=2, name="a) R 1 (b c")
    stat = parse_stat((tmp_path / "proc/7/stat").read_text())
    assert stat is not None
    assert (stat.pid, stat.session, stat.cpu_s, stat.resident_bytes) == (7, 5, 3.0, 2 * PAGE)
    assert parse_stat("") is None
    assert parse_stat("7 (gone) Z 1 5 5 " + "0 " * 30) is None


def test_a_group_is_all_processes_of_the_session(tmp_path: Path) -> None:
    process(tmp_path, 5, session=5, ticks=TICKS_PER_S, pages=10)
    process(tmp_path, 6, session=5, ticks=TICKS_PER_S, pages=20)
    process(tmp_path, 7, session=7, pages=40)
    process(tmp_path, 8, session=1, pages=80)
    found = read_sessions([5, 7, 9], tmp_path)
    assert found[5] == SessionUsage(frozenset({5, 6}), 30 * PAGE, 30 * PAGE, 2.0)
    assert found.keys() == {5, 7}
    assert read_sessions([], tmp_path / "nowhere") == {}


def test_pages_that_processes_of_a_group_share_count_once(tmp_path: Path) -> None:
    for pid in (5, 6):
        process(tmp_path, pid, session=5, pages=100)
        host(
            tmp_path,
            **{
                f"proc__{pid}__smaps_rollup": "0-1 ---p 0 00:00 0 [rollup]\nRss: 400 kB\nPss: 200 kB\n",
                f"proc__{pid}__status": "VmHWM: 400 kB\nVmRSS: 400 kB\n",
            },
        )
    assert read_sessions([5], tmp_path)[5].memory_bytes == 400 * 1024


def forked(root: Path, pid: int, *, session: int, parent: int, image: int, anon: int, share: int) -> None:
    """Writes the files of a process whose memory is `anon` kB, of which `share` count for it."""
    fields = ["S", str(parent), str(session), str(session), *["0"] * 17, "9999", *["0"] * 3, str(image)]
    texts = {
        "stat": f"{pid} (python) {' '.join(fields)}\n",
        "status": f"VmHWM: {anon + 50} kB\nVmRSS: {anon + 20} kB\nRssAnon: {anon} kB\nRssFile: 20 kB\n",
        "smaps_rollup": f"Rss: {anon + 20} kB\nPss_Anon: {share} kB\nPss_File: 9 kB\nAnonymous: {anon} kB\n",
    }
    host(root, **{f"proc__{pid}__{name}": text for name, text in texts.items()})


def test_pages_of_the_forkserver_are_no_task_s(tmp_path: Path) -> None:
    """The forkserver has 300 kB that each of 2 processes shares, which is 100 kB for each of the three."""
    forked(tmp_path, 4, session=1, parent=1, image=77, anon=300, share=100)
    forked(tmp_path, 5, session=5, parent=4, image=77, anon=340, share=140)
    forked(tmp_path, 6, session=6, parent=4, image=77, anon=300, share=100)
    found = read_sessions([5, 6], tmp_path)
    assert [found[pid].memory_bytes for pid in (5, 6)] == [40 * 1024, 0]
    assert found[5].peak_bytes == 70 * 1024, "at its peak 30 kB more were resident"


def test_a_program_that_a_task_runs_shares_nothing_with_the_forkserver(tmp_path: Path) -> None:
    forked(tmp_path, 4, session=1, parent=1, image=77, anon=300, share=150)
    forked(tmp_path, 5, session=5, parent=4, image=77, anon=310, share=160)
    forked(tmp_path, 6, session=5, parent=5, image=88, anon=500, share=500)
    assert read_sessions([5], tmp_path)[5].memory_bytes == (10 + 500) * 1024


def test_the_most_that_one_process_had_is_seen_between_readings(tmp_path: Path) -> None:
    process(tmp_path, 5, session=5, pages=1)
    host(tmp_path, proc__5__status="Name: x\nVmHWM:    9999 kB\nVmRSS: 4 kB\n")
    group = read_sessions([5], tmp_path)[5]
    assert (group.memory_bytes, group.peak_bytes) == (PAGE, 9999 * 1024)


def test_a_task_has_the_device_memory_of_all_its_processes_and_a_peak_is_the_most_of_each_quantity() -> None:
    group = SessionUsage(pids=frozenset({1, 2}), memory_bytes=7)
    readings = {
        "gpu-0": reading(90, (1, 10), (2, 20), (3, 60)),
        "gpu-1": reading(5, (3, 5)),
        "gpu-2": reading(9, (1, None)),
    }
    assert usage_of(group, 50.0, readings) == Usage(7, {"gpu-0": 30}, 50.0)
    first, second = Usage(5, {"a": 1, "b": 9}, 10.0), Usage(4, {"b": 3, "c": 2}, 20.0)
    assert highest_usage(first, second) == Usage(5, {"a": 1, "b": 9, "c": 2}, 20.0)
    assert highest_usage(None, first) == first
    memory = HostMemory(1000, 600)
    assert foreign_on_host(memory, [Usage(100), Usage(50)]) == 250
    assert foreign_on_host(memory, [Usage(900)]) == 0


def test_t18_what_others_have_is_theirs_and_the_drivers_or_what_remains_where_that_does_not_tell() -> None:
    assert foreign_bytes(reading(100, (1, 30), (2, 40)), own_pids={1}) == 40
    assert foreign_bytes(reading(110, (1, 30), (2, 40), reserved=40), own_pids={1}) == 80
    assert foreign_bytes(reading(30, (1, 30)), own_pids={1}) == 0
    assert foreign_bytes(reading(100, (1, 30), (2, None)), own_pids={1}) == 70
    assert foreign_bytes(reading(100, (1, None)), own_pids={1}, claimed_bytes=80) == 20
    assert foreign_bytes(reading(100), own_pids={1}) == 100
    assert foreign_bytes(reading(10, (1, 30), (2, None)), own_pids={1}) == 0
    listed = reading(110, (1, 30), (2, 40), reserved=40)
    assert foreign_bytes(listed, own_pids={1}, neighbours=[(25, 50)]) == 55
    assert foreign_bytes(listed, own_pids={1}, neighbours=[(60, 50)]) == 40
    assert foreign_bytes(reading(100), own_pids={1}, claimed_bytes=30, neighbours=[(0, 50)]) == 20


sizes = st.none() | st.integers(0, 1000)


@pytest.mark.thorough
@given(
    used=st.integers(0, 5000),
    processes=st.lists(st.tuples(st.integers(1, 9), sizes), unique_by=lambda item: item[0]),
    own=st.sets(st.integers(1, 9)),
    claimed=st.integers(0, 5000),
)
def test_what_others_have_is_never_negative_and_never_more_than_is_there(
    used: int, processes: list[tuple[int, int | None]], own: set[int], claimed: int
) -> None:
    total = max(used, sum(size or 0 for _, size in processes))
    assert 0 <= foreign_bytes(reading(used, *processes), own, claimed) <= total


BOOT = {"proc__sys__kernel__random__boot_id": "b00t\n"}


def test_workers_on_one_kernel_share_memory_where_no_cgroup_limits_it(tmp_path: Path) -> None:
    assert memory_pool(host(tmp_path / "a", **BOOT)) == "b00t"
    limit = {"proc__self__cgroup": "0::/a\n", "sys__fs__cgroup__a__memory.max": "9000000\n"}
    limit["sys__fs__cgroup__a__memory.current"] = "5\n"
    assert memory_pool(host(tmp_path / "b", **BOOT, **limit)) == "b00t", "the limit is above the memory"
    assert memory_pool(host(tmp_path / "c")) == ""


def test_workers_share_the_memory_of_the_cgroup_with_the_lowest_limit(tmp_path: Path) -> None:
    files: dict[str, str] = {}
    for name, limit in (("a", 500_000), ("a__b", 500_000), ("a__c", 400_000)):
        files[f"sys__fs__cgroup__{name}__memory.max"] = f"{limit}\n"
        files[f"sys__fs__cgroup__{name}__memory.current"] = "5\n"
    pools = {}
    for name in ("a/b", "a", "a/c"):
        pools[name] = memory_pool(host(tmp_path, **BOOT, **files, proc__self__cgroup=f"0::/{name}\n"))
    assert pools["a/b"] == pools["a"] == f"b00t-{(tmp_path / 'sys/fs/cgroup/a').stat().st_ino}"
    assert pools["a/c"] == f"b00t-{(tmp_path / 'sys/fs/cgroup/a/c').stat().st_ino}"


WELL = GpuReading(used_bytes=10, reserved_bytes=0, utilisation_percent=40, processes=())
LATE = GpuError("Timeout")
LOST = GpuError("GPU is lost", gone=True)


def sample(at_s: float, **sessions: SessionUsage) -> HostSample:
    return HostSample(
        at_s, HostMemory(1000, 500), CpuTime(), {int(pid[1:]): session for pid, session in sessions.items()}
    )


def judged(*answers: GpuReading | GpuError) -> str:
    now = DeviceHealth()
    for answer in answers:
        now = next_health(now, answer)
    return now.reason


def test_fm19_a_device_that_is_gone_fails_at_once_and_one_is_forgiven_two_failures_in_a_row() -> None:
    assert judged(WELL, LOST) == "GPU is lost"
    assert judged(WELL, LOST, WELL, LATE) == "GPU is lost"
    assert judged(LATE, LATE, WELL, LATE, LATE) == ""
    assert judged(LATE, LATE, LATE) == "Timeout"


def test_a_task_keeps_its_peak_when_it_needs_less_and_when_its_processes_have_ended() -> None:
    owned = [OwnedSession("t", 5, ("gpu-0",))]
    on_gpu = {"gpu-0": GpuReading(30, 0, 0, (GpuProcess(5, 30),))}
    first = sample(0, p5=SessionUsage(frozenset({5}), 100, 120, 1.0))
    second = sample(2, p5=SessionUsage(frozenset({5}), 60, 60, 2.0))
    peaks: dict[str, Usage] = {}
    peaks["t"] = task_uses(None, first, owned, on_gpu, peaks)["t"].peak
    assert peaks["t"] == Usage(120, {"gpu-0": 30}, 0.0)
    now = task_uses(first, second, owned, {}, peaks)["t"]
    assert now.usage == Usage(60, {}, 50.0)
    assert now.peak == Usage(120, {"gpu-0": 30}, 50.0)
    ended = task_uses(second, sample(3), owned, {}, {"t": now.peak})["t"]
    assert (ended.usage, ended.peak) == (Usage(), now.peak)


def test_t18_a_device_is_told_with_what_others_have_of_it_but_not_with_what_a_task_was_promised() -> None:
    processes = (GpuProcess(5, 30), GpuProcess(6, 5), GpuProcess(99, 40))
    seen = GpuReading(75, 0, 60, processes)
    session = SessionUsage(frozenset({5, 6}))
    found = device_readings({"gpu-1": seen}, [session], [OwnedSession("t", 5, ("gpu-1",), 50)])["gpu-1"]
    told = (found.device_id, found.used_bytes, found.foreign_bytes, found.utilisation)
    assert told == ("gpu-1", 75, 40, 60)
    seen = GpuReading(75, 0, None, ())
    owned = [OwnedSession("t", 5, ("gpu-1",), 50), OwnedSession("u", 6, ("gpu-2",), 99)]
    assert device_readings({"gpu-1": seen}, [], owned)["gpu-1"].foreign_bytes == 25
