"""Host and devices as Prometheus sees them."""

from collections.abc import Mapping

from tests.unit.worker.test_ledger import GIB, claim, ledger, put
from trackside.contracts.fleet import DeviceReading
from trackside.telemetry import metrics
from trackside.worker.gauges import DeviceUse, Gauges, device_uses
from trackside.worker.host.sampler import Snapshot
from trackside.worker.host.usage import HostMemory, Usage
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
