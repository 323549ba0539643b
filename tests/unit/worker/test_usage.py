"""What a host and its tasks use, from the texts of /proc; what of a device is others', which has failed."""

import os
from pathlib import Path
from typing import Any

from trackside.worker.host import sampler, usage
from trackside.worker.host.nvml import GpuError, GpuProcess, GpuReading

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
MEMINFO = "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    600 kB\n"


def reading(used: int = 0, *processes: tuple[int, int | None], reserved: int = 0) -> GpuReading:
    named = tuple(GpuProcess(pid, size) for pid, size in processes)
    return GpuReading(used, reserved, 0, named)


def host(root: Path, files: dict[str, str] | None = None) -> Path:
    for name, text in {"proc/meminfo": MEMINFO, **(files or {})}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def cgroup(name: str, most: object, used: object = 5, stat: str = "") -> dict[str, str]:
    texts = {"memory.max": f"{most}\n", "memory.current": f"{used}\n", "memory.stat": stat}
    return {f"sys/fs/cgroup/{name}/{each}": text for each, text in texts.items() if text}


def process(root: Path, pid: int, session: int, name: str = "python", **more: Any) -> None:
    """Writes the files of a process: `parent`, `ticks`, `pages` and `image` are of its stat."""
    fields = ["0"] * 26
    fields[:4] = ["S", str(more.pop("parent", 1)), str(session), str(session)]
    for place, known in ((11, "ticks"), (21, "pages"), (25, "image")):
        fields[place] = str(more.pop(known, 0))
    texts = {"stat": f"{pid} ({name}) {' '.join(fields)}\n", **more}
    host(root, {f"proc/{pid}/{each}": text for each, text in texts.items()})


def test_memory_is_the_hosts_or_the_cgroups_where_that_is_less_without_its_cache(tmp_path: Path) -> None:
    assert usage.read_host(host(tmp_path)) == usage.HostMemory(1000 * 1024, 600 * 1024)
    limited = cgroup("a", 500_000, 300_000, "anon 7\ninactive_file 100000\n")
    root = host(tmp_path, {"proc/self/cgroup": "0::/a/b\n", **cgroup("a/b", "max"), **limited})
    assert usage.read_host(root) == usage.HostMemory(500_000, 300_000)
    files = {
        "proc/self/cgroup": "9:cpu:/x\n4:memory:/docker/abc\n0::/\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "400000\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "500000\n",
    }
    root = host(tmp_path / "first", files)
    assert usage.read_host(root) == usage.HostMemory(400_000, 0)


def test_the_hosts_cpu_is_the_mean_since_the_last_reading_a_task_s_is_that_of_a_core(tmp_path: Path) -> None:
    before = usage.read_cpu(host(tmp_path, {"proc/stat": "cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2\n"}))
    now = usage.read_cpu(host(tmp_path, {"proc/stat": "cpu  160 0 60 820 60 0 0 0 0 0\n"}))
    assert (before, now) == (usage.CpuTime(150, 1000), usage.CpuTime(220, 1100))
    assert usage.host_cpu_percent(before, now) == 70.0
    assert usage.host_cpu_percent(now, now) == 0.0
    assert usage.read_cpu(tmp_path / "nowhere") == usage.CpuTime()
    assert usage.cpu_percent(usage.SessionUsage(cpu_s=1.0), usage.SessionUsage(cpu_s=4.0), 2.0) == 150.0
    assert usage.cpu_percent(usage.SessionUsage(cpu_s=4.0), usage.SessionUsage(cpu_s=1.0), 2.0) == 0.0
    assert usage.cpu_percent(None, usage.SessionUsage(cpu_s=1.0), 2.0) == 0.0
    assert usage.cpu_percent(usage.SessionUsage(), usage.SessionUsage(cpu_s=1.0), 0.0) == 0.0


def test_the_name_of_a_process_may_hold_any_character(tmp_path: Path) -> None:
    process(tmp_path, 7, session=5, ticks=3 * TICKS_PER_S, pages=2, name="a) R 1 (b c")
    stat = usage.parse_stat((tmp_path / "proc/7/stat").read_text())
    assert stat is not None
    assert (stat.pid, stat.session, stat.cpu_s, stat.resident_bytes) == (7, 5, 3.0, 2 * PAGE)
    assert usage.parse_stat("") is None
    assert usage.parse_stat("7 (gone) Z 1 5 5 " + "0 " * 30) is None


def test_a_group_is_all_processes_of_the_session(tmp_path: Path) -> None:
    process(tmp_path, 5, session=5, ticks=TICKS_PER_S, pages=10)
    process(tmp_path, 6, session=5, ticks=TICKS_PER_S, pages=20)
    process(tmp_path, 7, session=7, pages=40)
    process(tmp_path, 8, session=1, pages=80)
    found = usage.read_sessions([5, 7, 9], tmp_path)
    assert found[5] == usage.SessionUsage(frozenset({5, 6}), 30 * PAGE, 30 * PAGE, 2.0)
    assert found.keys() == {5, 7}
    assert usage.read_sessions([], tmp_path / "nowhere") == {}


def test_pages_that_processes_of_a_group_share_count_once(tmp_path: Path) -> None:
    for pid in (5, 6):
        rollup = "0-1 ---p 0 00:00 0 [rollup]\nRss: 400 kB\nPss: 200 kB\n"
        status = "VmHWM: 400 kB\nVmRSS: 400 kB\n"
        process(tmp_path, pid, session=5, pages=100, smaps_rollup=rollup, status=status)
    assert usage.read_sessions([5], tmp_path)[5].memory_bytes == 400 * 1024


def forked(root: Path, pid: int, *, anon: int, share: int, **more: Any) -> None:
    """Writes the files of a process whose memory is `anon` kB, of which `share` count for it."""
    status = f"VmHWM: {anon + 50} kB\nVmRSS: {anon + 20} kB\nRssAnon: {anon} kB\nRssFile: 20 kB\n"
    rollup = f"Rss: {anon + 20} kB\nPss_Anon: {share} kB\nPss_File: 9 kB\nAnonymous: {anon} kB\n"
    process(root, pid, pages=9999, status=status, smaps_rollup=rollup, **more)


def test_pages_of_the_forkserver_are_no_task_s(tmp_path: Path) -> None:
    """The forkserver has 300 kB that each of 2 processes shares, which is 100 kB for each of the three."""
    forked(tmp_path, 4, session=1, parent=1, image=77, anon=300, share=100)
    forked(tmp_path, 5, session=5, parent=4, image=77, anon=340, share=140)
    forked(tmp_path, 6, session=6, parent=4, image=77, anon=300, share=100)
    found = usage.read_sessions([5, 6], tmp_path)
    assert [found[pid].memory_bytes for pid in (5, 6)] == [40 * 1024, 0]
    assert found[5].peak_bytes == 70 * 1024, "at its peak 30 kB more were resident"


def test_a_program_that_a_task_runs_shares_nothing_with_the_forkserver(tmp_path: Path) -> None:
    forked(tmp_path, 4, session=1, parent=1, image=77, anon=300, share=150)
    forked(tmp_path, 5, session=5, parent=4, image=77, anon=310, share=160)
    forked(tmp_path, 6, session=5, parent=5, image=88, anon=500, share=500)
    assert usage.read_sessions([5], tmp_path)[5].memory_bytes == (10 + 500) * 1024


def test_the_most_that_one_process_had_is_seen_between_readings(tmp_path: Path) -> None:
    process(tmp_path, 5, session=5, pages=1, status="Name: x\nVmHWM:    9999 kB\nVmRSS: 4 kB\n")
    group = usage.read_sessions([5], tmp_path)[5]
    assert (group.memory_bytes, group.peak_bytes) == (PAGE, 9999 * 1024)


def test_a_task_has_the_device_memory_of_all_its_processes_and_a_peak_is_the_most_of_each_quantity() -> None:
    group = usage.SessionUsage(pids=frozenset({1, 2}), memory_bytes=7)
    others, own = reading(5, (3, 5)), reading(9, (1, None))
    readings = {"gpu-0": reading(90, (1, 10), (2, 20), (3, 60)), "gpu-1": others, "gpu-2": own}
    assert usage.usage_of(group, 50.0, readings) == usage.Usage(7, {"gpu-0": 30}, 50.0)
    first, second = usage.Usage(5, {"a": 1, "b": 9}, 10.0), usage.Usage(4, {"b": 3, "c": 2}, 20.0)
    assert usage.highest_usage(first, second) == usage.Usage(5, {"a": 1, "b": 9, "c": 2}, 20.0)
    assert usage.highest_usage(None, first) == first
    memory = usage.HostMemory(1000, 600)
    assert usage.foreign_on_host(memory, [usage.Usage(100), usage.Usage(50)]) == 250
    assert usage.foreign_on_host(memory, [usage.Usage(900)]) == 0


def test_t18_what_others_have_is_theirs_and_the_drivers_or_what_remains_where_that_does_not_tell() -> None:
    assert usage.foreign_bytes(reading(100, (1, 30), (2, 40)), own_pids={1}) == 40
    assert usage.foreign_bytes(reading(110, (1, 30), (2, 40), reserved=40), own_pids={1}) == 80
    assert usage.foreign_bytes(reading(30, (1, 30)), own_pids={1}) == 0
    assert usage.foreign_bytes(reading(100, (1, 30), (2, None)), own_pids={1}) == 70
    assert usage.foreign_bytes(reading(100, (1, None)), own_pids={1}, claimed_bytes=80) == 20
    assert usage.foreign_bytes(reading(100), own_pids={1}) == 100
    assert usage.foreign_bytes(reading(10, (1, 30), (2, None)), own_pids={1}) == 0
    listed = reading(110, (1, 30), (2, 40), reserved=40)
    assert usage.foreign_bytes(listed, own_pids={1}, neighbours=[(25, 50)]) == 55
    assert usage.foreign_bytes(listed, own_pids={1}, neighbours=[(60, 50)]) == 40
    assert usage.foreign_bytes(reading(100), own_pids={1}, claimed_bytes=30, neighbours=[(0, 50)]) == 20


BOOT = {"proc/sys/kernel/random/boot_id": "b00t\n"}


def test_workers_on_one_kernel_share_memory_where_no_cgroup_limits_it(tmp_path: Path) -> None:
    assert usage.memory_pool(host(tmp_path / "a", BOOT)) == "b00t"
    limited = {"proc/self/cgroup": "0::/a\n", **cgroup("a", 9_000_000)}
    assert usage.memory_pool(host(tmp_path / "b", BOOT | limited)) == "b00t", "the limit is above the memory"
    assert usage.memory_pool(host(tmp_path / "c")) == ""


def test_workers_share_the_memory_of_the_cgroup_with_the_lowest_limit(tmp_path: Path) -> None:
    files = BOOT | cgroup("a", 500_000) | cgroup("a/b", 500_000) | cgroup("a/c", 400_000)
    pools = {}
    for name in ("a/b", "a", "a/c"):
        pools[name] = usage.memory_pool(host(tmp_path, files | {"proc/self/cgroup": f"0::/{name}\n"}))
    assert pools["a/b"] == pools["a"] == f"b00t-{(tmp_path / 'sys/fs/cgroup/a').stat().st_ino}"
    assert pools["a/c"] == f"b00t-{(tmp_path / 'sys/fs/cgroup/a/c').stat().st_ino}"


WELL = GpuReading(used_bytes=10, reserved_bytes=0, utilisation_percent=40, processes=())
LATE = GpuError("Timeout")
LOST = GpuError("GPU is lost", gone=True)


def sample(at_s: float, **sessions: usage.SessionUsage) -> sampler.HostSample:
    host, owned = usage.HostMemory(1000, 500), {int(pid[1:]): each for pid, each in sessions.items()}
    return sampler.HostSample(at_s, host, usage.CpuTime(), owned)


def judged(*answers: GpuReading | GpuError) -> str:
    now = sampler.DeviceHealth()
    for answer in answers:
        now = sampler.next_health(now, answer)
    return now.reason


def test_fm19_a_device_that_is_gone_fails_at_once_and_one_is_forgiven_two_failures_in_a_row() -> None:
    assert judged(WELL, LOST) == "GPU is lost"
    assert judged(WELL, LOST, WELL, LATE) == "GPU is lost"
    assert judged(LATE, LATE, WELL, LATE, LATE) == ""
    assert judged(LATE, LATE, LATE) == "Timeout"


def test_a_task_keeps_its_peak_when_it_needs_less_and_when_its_processes_have_ended() -> None:
    owned = [sampler.OwnedSession("t", 5, ("gpu-0",))]
    on_gpu = {"gpu-0": GpuReading(30, 0, 0, (GpuProcess(5, 30),))}
    first = sample(0, p5=usage.SessionUsage(frozenset({5}), 100, 120, 1.0))
    second = sample(2, p5=usage.SessionUsage(frozenset({5}), 60, 60, 2.0))
    peaks: dict[str, usage.Usage] = {}
    peaks["t"] = sampler.task_uses(None, first, owned, on_gpu, peaks)["t"].peak
    assert peaks["t"] == usage.Usage(120, {"gpu-0": 30}, 0.0)
    now = sampler.task_uses(first, second, owned, {}, peaks)["t"]
    assert now.usage == usage.Usage(60, {}, 50.0)
    assert now.peak == usage.Usage(120, {"gpu-0": 30}, 50.0)
    ended = sampler.task_uses(second, sample(3), owned, {}, {"t": now.peak})["t"]
    assert (ended.usage, ended.peak) == (usage.Usage(), now.peak)


def test_a_warm_process_counts_with_what_it_said_and_is_not_measured() -> None:
    owned = [sampler.OwnedSession("warm-5", 5, ("gpu-0",), idle_bytes=70)]
    on_gpu = {"gpu-0": GpuReading(75, 0, 0, (GpuProcess(5, 30), GpuProcess(99, 40)))}
    assert sampler.task_uses(sample(0), sample(1), owned, on_gpu, {})["warm-5"].usage == usage.Usage(
        70, {"gpu-0": 30}
    )
    assert sampler.device_readings(on_gpu, {}, owned)["gpu-0"].foreign_bytes == 40


def test_t18_a_device_is_told_with_what_others_have_of_it_but_not_with_what_a_task_was_promised() -> None:
    processes = (GpuProcess(5, 30), GpuProcess(6, 5), GpuProcess(99, 40))
    seen = GpuReading(75, 0, 60, processes)
    session = usage.SessionUsage(frozenset({5, 6}))
    owned = [sampler.OwnedSession("t", 5, ("gpu-1",), 50)]
    found = sampler.device_readings({"gpu-1": seen}, {5: session}, owned)["gpu-1"]
    told = (found.device_id, found.used_bytes, found.foreign_bytes, found.utilisation)
    assert told == ("gpu-1", 75, 40, 60)
    seen = GpuReading(75, 0, None, ())
    owned = [sampler.OwnedSession("t", 5, ("gpu-1",), 50), sampler.OwnedSession("u", 6, ("gpu-2",), 99)]
    assert sampler.device_readings({"gpu-1": seen}, {}, owned)["gpu-1"].foreign_bytes == 25
