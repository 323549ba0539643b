"""What the watch makes of what it reads: who has failed, who uses what."""

from trackside.worker.host.nvml import GpuError, GpuProcess, GpuReading
from trackside.worker.host.sampler import (
    DeviceHealth,
    HostSample,
    OwnedSession,
    device_readings,
    next_health,
    task_uses,
)
from trackside.worker.host.usage import CpuTime, HostMemory, SessionUsage, Usage

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


def test_fm19_a_device_that_is_gone_fails_at_once_and_for_good() -> None:
    assert judged(WELL, LOST) == "GPU is lost"
    assert judged(WELL, LOST, WELL, LATE) == "GPU is lost"


def test_fm19_a_device_is_forgiven_two_failures_in_a_row() -> None:
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


def test_t18_a_device_is_told_with_what_others_have_of_it() -> None:
    processes = (GpuProcess(5, 30), GpuProcess(6, 5), GpuProcess(99, 40))
    seen = GpuReading(75, 0, 60, processes)
    session = SessionUsage(frozenset({5, 6}))
    found = device_readings({"gpu-1": seen}, [session], [OwnedSession("t", 5, ("gpu-1",), 50)])["gpu-1"]
    assert (found.device_id, found.used_bytes, found.foreign_bytes, found.utilisation) == (
        "gpu-1",
        75,
        40,
        60,
    )


def test_t18_what_a_task_was_promised_is_not_others_where_the_driver_names_no_process() -> None:
    seen = GpuReading(75, 0, None, ())
    owned = [OwnedSession("t", 5, ("gpu-1",), 50), OwnedSession("u", 6, ("gpu-2",), 99)]
    assert device_readings({"gpu-1": seen}, [], owned)["gpu-1"].foreign_bytes == 25
