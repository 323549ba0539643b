"""Prometheus gauges of the host and its devices: memory, reservations, use, tasks.

GPUs are reported as their driver measures them, a CPU slot as what its task uses. Series of single tasks are
in the metrics topic: labelled by task id they would be too many for Prometheus.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from trackside.eventlog.clock import monotonic_s
from trackside.telemetry import metrics
from trackside.telemetry.names import GaugeName
from trackside.worker.host.sampler import Snapshot
from trackside.worker.host.usage import Usage
from trackside.worker.placements.ledger import HAS_DEVICES, Ledger


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """The use of a device: bytes, percent of a GPU or of one core (None if unknown), tasks on it."""

    total_bytes: int
    used_bytes: int
    reserved_bytes: int
    percent: float | None
    tasks: int


def device_uses(snapshot: Snapshot, ledger: Ledger, usages: Mapping[str, Usage]) -> dict[str, DeviceUse]:
    """Returns the use of the devices that answer; `usages` are by the keys of the ledger's allocations."""
    found = {}
    for device_id, device in ledger.devices.items():
        present = {
            key: allocation
            for key, allocation in ledger.allocations.items()
            if device_id in allocation.claim.device_ids and allocation.stage in HAS_DEVICES
        }
        present_usages = [usages[key] for key in present if key in usages]
        if device.kind == "cpu":
            used = sum(usage.memory_bytes for usage in present_usages)
            percent: float | None = round(sum(usage.cpu_percent for usage in present_usages), 1)
            reserved = sum(allocation.memory_bytes for allocation in present.values())
        elif (reading := snapshot.devices.get(device_id)) is not None:
            used, percent = reading.used_bytes, reading.utilisation
            reserved = sum(allocation.cuda_memory_bytes for allocation in present.values())
        else:  # it has failed
            continue
        found[device_id] = DeviceUse(device.memory_bytes, used, reserved, percent, len(present))
    return found


class Gauges:
    """Sets the gauges of one worker process, and removes those of failed devices."""

    def __init__(self) -> None:
        self._exported: set[tuple[GaugeName, str]] = set()
        self._set_s = monotonic_s()

    def set(self, snapshot: Snapshot, ledger: Ledger, usages: Mapping[str, Usage]) -> None:
        """Sets all gauges to the last sample."""
        metrics.gauge("trackside.worker.host_memory.bytes").set(snapshot.host.memory_bytes)
        metrics.gauge("trackside.worker.host_available.bytes").set(snapshot.host.available_bytes)
        metrics.gauge("trackside.worker.host_processor.ratio").set(snapshot.cpu_percent / 100)
        values: dict[tuple[GaugeName, str], float] = {}
        now_s = monotonic_s()
        elapsed_s, self._set_s = now_s - self._set_s, now_s
        for device_id, use in device_uses(snapshot, ledger, usages).items():
            values["trackside.worker.device_total.bytes", device_id] = use.total_bytes
            values["trackside.worker.device_memory.bytes", device_id] = use.used_bytes
            values["trackside.worker.device_reserved.bytes", device_id] = use.reserved_bytes
            values["trackside.worker.device.tasks", device_id] = use.tasks
            if ledger.devices[device_id].kind == "cpu":
                spent = metrics.counter("trackside.worker.device_processor.seconds").labels(device_id)
                spent.inc((use.percent or 0.0) / 100 * elapsed_s)
            if use.percent is not None:
                values["trackside.worker.device_utilisation.ratio", device_id] = use.percent / 100
        for (name, device_id), value in values.items():
            metrics.gauge(name).labels(device=device_id).set(value)
        for name, device_id in sorted(self._exported - values.keys()):
            metrics.gauge(name).remove(device_id)
        self._exported = set(values)
