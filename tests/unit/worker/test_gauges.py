"""Devices as tasks have them and as Prometheus sees them, with the host and the time they are held."""

from collections.abc import Mapping

import pytest
from prometheus_client import REGISTRY

from tests.unit.worker.test_ledger import GIB, claim, ledger, put
from trackside.contracts.fleet.fleet import DeviceReading
from trackside.telemetry import metrics
from trackside.worker.gauges import DeviceUse, Gauges, device_uses
from trackside.worker.host.devices import cpu_devices, gpu_devices
from trackside.worker.host.nvml import Gpu, GpuError, Nvml
from trackside.worker.host.sampler import Snapshot
from trackside.worker.host.usage import HostMemory, Usage
from trackside.worker.placements import device_time
from trackside.worker.placements.ledger import Stage


def snapshot(*readings: DeviceReading) -> Snapshot:
    host = HostMemory(64 * GIB, 16 * GIB)
    return Snapshot(host, 37.5, 0, {each.device_id: each for each in readings}, {})


def reading(device_id: str, used_gib: float, percent: float | None) -> DeviceReading:
    return DeviceReading(device_id=device_id, used_bytes=int(used_gib * GIB), utilisation=percent)


def lines(device_id: str) -> list[str]:
    """Returns the series of a device that no other test uses."""
    text = metrics.exposition()[1].decode()
    return [line for line in text.splitlines() if f'device="{device_id}"' in line]


def test_a_gpu_is_as_its_driver_tells_and_a_cpu_slot_as_its_task_does() -> None:
    known = ledger("cpu-0", "cpu-1", "gpu-0", "gpu-1")
    put(known, "a", claim("cpu-0", host=2))
    put(known, "b", claim("gpu-0", host=1, cuda=6))
    put(known, "c", claim("gpu-0", host=1, cuda=8), Stage.HELD)
    usages: Mapping[str, Usage] = {"a": Usage(GIB, {}, 96.0), "b": Usage(GIB, {"gpu-0": 5 * GIB}, 12.0)}
    seen = snapshot(reading("gpu-0", 5.5, 80), reading("gpu-1", 0, None))
    assert device_uses(seen, known, usages) == {
        "cpu-0": DeviceUse(16 * GIB, GIB, 2 * GIB, 96.0, 1),
        "cpu-1": DeviceUse(16 * GIB, 0, 0, 0.0, 0),
        "gpu-0": DeviceUse(16 * GIB, int(5.5 * GIB), 6 * GIB, 80, 1),
        "gpu-1": DeviceUse(16 * GIB, 0, 0, None, 0),
    }


def test_fm_19_a_device_that_has_failed_has_no_series_any_more() -> None:
    known = ledger("gpu-7", "gpu-8")
    gauges = Gauges()
    gauges.set(snapshot(reading("gpu-7", 1, 10), reading("gpu-8", 1, None)), known, {})
    assert "trackside_worker_host_processor_ratio 0.375" in metrics.exposition()[1].decode()
    assert (len(lines("gpu-7")), len(lines("gpu-8"))) == (5, 4), "of one the driver tells no utilisation"
    assert 'trackside_worker_device_utilisation_ratio{device="gpu-7"} 0.1' in lines("gpu-7")
    gauges.set(snapshot(reading("gpu-8", 1, None)), known, {})
    assert (len(lines("gpu-7")), len(lines("gpu-8"))) == (0, 4)
    gauges.set(snapshot(), known, {})
    assert lines("gpu-8") == []


BUSY = "trackside_worker_device_busy_seconds_total"


def busy_s(device_id: str) -> float | None:
    return REGISTRY.get_sample_value(BUSY, {"device": device_id})


def test_a_device_counts_exactly_the_time_that_tasks_hold_it_however_short_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s, known = [100.0], ledger("busy-0", "busy-1")
    monkeypatch.setattr(device_time, "monotonic_s", lambda: now_s[0])
    time = device_time.DeviceTime(known.devices)
    assert (busy_s("busy-0"), busy_s("busy-1")) == (0, 0)
    for number in range(100):
        put(known, f"t{number}", claim("busy-0"), Stage.TRAINING)
        time.update(known)
        now_s[0] += 0.004
        time.update(known)
        known.remove(f"t{number}")
        time.update(known)
        now_s[0] += 0.001
    put(known, "held", claim("busy-1"), Stage.HELD)
    time.update(known)
    now_s[0] += 5
    time.update(known)
    assert abs((busy_s("busy-0") or 0) - 0.4) < 1e-6
    assert busy_s("busy-1") == 0, "a task that waits for a device does not hold it"


class Listed(Nvml):
    def __init__(self, answer: list[Gpu] | GpuError) -> None:
        super().__init__()
        self._answer = answer

    def gpus(self) -> list[Gpu]:
        if isinstance(self._answer, GpuError):
            raise self._answer
        return self._answer


def test_a_gpu_is_given_to_tasks_by_its_uuid_and_a_driver_that_fails_means_none() -> None:
    (place,) = gpu_devices(Listed([Gpu(index=3, uuid="GPU-3", name="H200", memory_bytes=1000)]))
    found = (place.id, place.device.kind, place.device.index, place.device.uuid)
    assert found == ("gpu-3", "gpu", 3, "GPU-3")
    assert (place.cuda_visible_devices, place.torch_name) == ("GPU-3", "cuda:0")
    assert (place.device.name, place.device.memory_bytes) == ("H200", 1000)
    assert gpu_devices(Listed(GpuError("Driver Not Loaded"))) == []


def test_cpu_slots_share_the_memory_of_the_host() -> None:
    places = cpu_devices(4, 1000)
    assert [place.id for place in places] == ["cpu-0", "cpu-1", "cpu-2", "cpu-3"]
    assert {place.device.memory_bytes for place in places} == {250}
    assert {place.cuda_visible_devices for place in places} == {""}
    assert cpu_devices(0, 1000) == []
