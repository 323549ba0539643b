"""The real pynvml and its stand-in of NVIDIA's library: four GPUs and what may happen to them."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.nvml.standin import GIB, UNKNOWN, FakeNvml
from trackside.worker.host.devices import HostDevice, gpu_devices
from trackside.worker.host.nvml import GpuError, GpuProcess, GpuReading, Nvml
from trackside.worker.host.sampler import HostSampler, OwnedSession

# A process of its own that finds the library by its name, as a worker does.
LIST = """
import json
from trackside.worker.host.devices import discover
print(json.dumps([place.device.model_dump() for place in discover(1)]))
"""
# A task's session with a second process in it; its first process uses the CPU until it is told to end.
TASK = """
import os, subprocess, sys
os.setsid()
other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
print(other.pid, flush=True)
sum(range(20_000_000))
print("worked", flush=True)
input()
other.communicate(b"\\n")
"""


@pytest.fixture
def nvml(fake_nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nvml]:
    fake_nvml.load(monkeypatch)
    found = Nvml()
    yield found
    found.close()


@pytest.fixture
def places(nvml: Nvml) -> list[HostDevice]:
    return gpu_devices(nvml)


def listed(variables: dict[str, str]) -> tuple[list[dict[str, object]], list[str]]:
    """Returns the devices that a process finds, and the lines of its log."""
    environment = {**os.environ, **variables}
    found = subprocess.run([sys.executable, "-c", LIST], env=environment, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    *lines, devices = found.stdout.splitlines()
    return json.loads(devices), lines


def read(nvml: Nvml, uuid: str) -> GpuReading:
    found = nvml.readings([uuid])[uuid]
    assert isinstance(found, GpuReading), found
    return found


@contextmanager
def task() -> Iterator[tuple[int, int]]:
    """Runs a task's session; gives the pids of its two processes, once the first has used the CPU."""
    process = subprocess.Popen(
        [sys.executable, "-c", TASK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        other = int(process.stdout.readline())
        assert process.stdout.readline() == "worked\n"
        yield process.pid, other
    finally:
        process.communicate("\n")


def test_four_gpus_are_found_by_a_process_that_looks_for_the_library(fake_nvml: FakeNvml) -> None:
    fake_nvml.set(2, total=80 * GIB)
    devices, lines = listed(fake_nvml.variables)
    assert lines == []
    assert [device["device_id"] for device in devices] == ["gpu-0", "gpu-1", "gpu-2", "gpu-3", "cpu-0"]
    assert [device["uuid"] for device in devices[:4]] == [fake_nvml.uuid(index) for index in range(4)]
    assert devices[2]["memory_bytes"] == 80 * GIB
    assert devices[2]["name"] == "Stand-in 2"
    assert fake_nvml.calls == ["init", "shutdown"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (9, "no NVIDIA GPUs"),
        *(pytest.param(code, "no NVIDIA GPUs", marks=pytest.mark.long) for code in (18, 999)),
        (0, "Not Found"),
    ],
)
def test_fm20_a_library_that_cannot_be_loaded_is_one_line_in_the_log(
    fake_nvml: FakeNvml, tmp_path: Path, code: int, said: str
) -> None:
    """Nor does a driver that does not start mean more than that there are CPU slots only."""
    variables = {"LD_LIBRARY_PATH": str(tmp_path)}
    if code:
        fake_nvml.no_driver(code)
        variables = fake_nvml.variables
    else:
        (tmp_path / "libnvidia-ml.so.1").write_bytes(b"")
    devices, lines = listed(variables)
    assert [device["device_id"] for device in devices] == ["cpu-0"]
    assert len(lines) == 1 and said in lines[0]


@pytest.mark.long
def test_a_gpu_that_is_lost_from_the_start_is_left_out(fake_nvml: FakeNvml, nvml: Nvml) -> None:
    fake_nvml.lose(0)
    assert [gpu.index for gpu in nvml.gpus()] == [1, 2, 3]


def test_a_reading_tells_memory_utilisation_and_processes(fake_nvml: FakeNvml, nvml: Nvml) -> None:
    fake_nvml.set(1, processes=[(11, 2 * GIB), (12, UNKNOWN)], used=5 * GIB, reserved=GIB, utilisation=73)
    assert read(nvml, fake_nvml.uuid(1)) == GpuReading(
        used_bytes=5 * GIB,
        reserved_bytes=GIB,
        utilisation_percent=73,
        processes=(GpuProcess(11, 2 * GIB), GpuProcess(12, None)),
    )
    fake_nvml.set(1, utilisation=-1)
    assert read(nvml, fake_nvml.uuid(1)).utilisation_percent is None
    assert fake_nvml.calls == ["init"]


def test_the_library_is_opened_anew_after_the_driver_went_away(fake_nvml: FakeNvml, nvml: Nvml) -> None:
    uuid = fake_nvml.uuid(0)
    read(nvml, uuid)
    fake_nvml.no_driver()
    gone = nvml.readings([uuid])[uuid]
    assert isinstance(gone, GpuError)
    assert (gone.reason, gone.gone) == ("Driver Not Loaded", False)
    fake_nvml.driver_again()
    assert read(nvml, uuid).used_bytes == 0
    assert fake_nvml.calls == ["init", "shutdown", "init"]


@pytest.mark.parametrize(("code", "gone"), [(15, True), (16, True), (10, False), (999, False)])
def test_fm19_a_gpu_that_fails_hides_no_other(fake_nvml: FakeNvml, nvml: Nvml, code: int, gone: bool) -> None:
    fake_nvml.lose(2, code)
    found = nvml.readings([fake_nvml.uuid(index) for index in range(4)])
    answers = list(found.values())
    assert [isinstance(answer, GpuReading) for answer in answers] == [True, True, False, True]
    assert isinstance(answers[2], GpuError)
    assert answers[2].gone is gone
    assert [gpu.index for gpu in nvml.gpus()] == [0, 1, 3]
    fake_nvml.recover(2)
    assert read(nvml, fake_nvml.uuid(2)).used_bytes == 0


def test_fm19_a_gpu_that_reported_an_xid_has_failed(fake_nvml: FakeNvml, nvml: Nvml) -> None:
    nvml.gpus()
    fake_nvml.xid(1, 13)  # one that a program has raised
    read(nvml, fake_nvml.uuid(1))
    fake_nvml.xid(1, 79)
    found = nvml.readings([fake_nvml.uuid(0), fake_nvml.uuid(1)])
    assert isinstance(found[fake_nvml.uuid(0)], GpuReading)
    failed = found[fake_nvml.uuid(1)]
    assert isinstance(failed, GpuError)
    assert (failed.gone, failed.reason) == (True, "the driver reported Xid 79")


class Failures(list[tuple[str, str]]):
    """The devices that failed, in order, with the reason."""

    def __call__(self, device_id: str, reason: str) -> None:
        self.append((device_id, reason))


def sampler(
    places: list[HostDevice],
    nvml: Nvml,
    failures: Failures,
    owned: Callable[[], list[OwnedSession]] = list,
    interval_s: float = 60.0,
) -> HostSampler:
    """Makes a watch that looks when it is told to, and waits `interval_s` for the driver's answer."""
    return HostSampler(places, nvml, owned, failures, interval_s=interval_s, driver_timeout_s=60.0)


async def test_the_watch_tells_what_each_task_and_what_others_use(
    fake_nvml: FakeNvml, nvml: Nvml, places: list[HostDevice]
) -> None:
    with task() as (pid, other):
        fake_nvml.set(1, processes=[(pid, GIB), (other, GIB), (1, 3 * GIB)], utilisation=50)
        looking = sampler(places, nvml, Failures(), lambda: [OwnedSession("t", pid, ("gpu-1",))])
        first = await looking.sample()
        use = first.tasks["t"]
        assert use.usage.cuda_memory_bytes_by_device == {"gpu-1": 2 * GIB}
        assert 1 << 20 < use.usage.memory_bytes < GIB
        told = first.devices["gpu-1"]
        assert (told.used_bytes, told.foreign_bytes, told.utilisation) == (5 * GIB, 3 * GIB, 50)
        assert 0 < first.foreign_bytes < first.host.memory_bytes
        fake_nvml.set(1, processes=[(pid, 4 * GIB)])
        await looking.sample()
        fake_nvml.set(1, processes=[])
        last = (await looking.sample()).tasks["t"]
        assert last.usage.cuda_memory_bytes_by_device == {}
        assert looking.peak("t").cuda_memory_bytes_by_device == {"gpu-1": 4 * GIB}
    ended = (await looking.sample()).tasks["t"]
    assert ended.usage.memory_bytes == 0
    assert ended.peak.memory_bytes >= use.usage.memory_bytes


class Clock:
    """Stands for the module `time` where it is read, and stands still until it is moved on."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic(self) -> float:
        """Returns its time, s."""
        return self.now_s


async def test_a_driver_that_never_answers_keeps_nobody_waiting(
    fake_nvml: FakeNvml, nvml: Nvml, places: list[HostDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    failures, clock = Failures(), Clock()
    monkeypatch.setattr("trackside.worker.host.sampler.time", clock)
    looking = sampler(places, nvml, failures, interval_s=0.02)
    while not (await looking.sample()).devices:  # the thread that asks may begin late
        pass
    fake_nvml.hang()
    try:
        assert (await looking.sample()).devices.keys() == {"gpu-0", "gpu-1", "gpu-2", "gpu-3"}
        assert failures == []
        clock.now_s += 61
        await looking.sample()
        await looking.sample()
    finally:
        fake_nvml.resume()
    assert [device_id for device_id, _ in failures] == ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]
    assert failures[0][1] == "the driver has not answered for 61 s"
    while not (await looking.sample()).devices:  # the thread that asks has its answer before the test ends
        pass


async def test_fm_13_a_worker_that_slept_while_it_asked_the_driver_gives_it_time_to_answer(
    fake_nvml: FakeNvml, nvml: Nvml, places: list[HostDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All its GPUs had failed, for good."""
    failures, clock = Failures(), Clock()
    monkeypatch.setattr("trackside.worker.host.sampler.time", clock)
    looking = sampler(places, nvml, failures, interval_s=0.02)
    fake_nvml.hang()
    try:
        await looking.sample()
        clock.now_s += 61  # the thread that asks has slept as long
        await looking.sample()
    finally:
        fake_nvml.resume()
    clock.now_s = 1_000.0
    while not (await looking.sample()).devices:
        pass
    assert failures == []
