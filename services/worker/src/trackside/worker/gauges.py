"""The host and its devices as series for Prometheus: memory, reservations, use, tasks.

A GPU is as its driver tells; a CPU slot is what its task uses, for nothing else is its own. Tasks have series
of their own in the topic of metrics: by their ids here, they would be too many for Prometheus.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from trackside.telemetry import metrics
from trackside.telemetry.names import GaugeName
from trackside.worker.host.sampler import Snapshot
from trackside.worker.host.usage import Usage
from trackside.worker.placements.ledger import HAS_DEVICES, Ledger


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """A device now: bytes, percent of a GPU or of one core (None if unknown), tasks that have it."""

    total_bytes: int
    used_bytes: int
    reserved_bytes: int
    percent: float | None
    tasks: int


def device_uses(snapshot: Snapshot, ledger: Ledger, usages: Mapping[str, Usage]) -> dict[str, DeviceUse]:
    """Gives the devices that answer; `usages` are those of the ledger's holdings, by their keys."""
    found = {}
    for device_id, device in ledger.devices.items():
        on_it = {
            key: holding
            for key, holding in ledger.holdings.items()
            if device_id in holding.claim.device_ids and holding.stage in HAS_DEVICES
        }
        theirs = [usages[key] for key in on_it if key in usages]
        if device.kind == "cpu":
            used = sum(usage.memory_bytes for usage in theirs)
            percent: float | None = round(sum(usage.cpu_percent for usage in theirs), 1)
            reserved = sum(holding.memory_bytes for holding in on_it.values())
        elif (reading := snapshot.devices.get(device_id)) is not None:
            used, percent = reading.used_bytes, reading.utilisation
            reserved = sum(holding.cuda_memory_bytes for holding in on_it.values())
        else:  # it has failed
            continue
        found[device_id] = DeviceUse(device.memory_bytes, used, reserved, percent, len(on_it))
    return found


class Gauges:
    """Sets the gauges of one worker process, and takes back those of devices that have failed."""

    def __init__(self) -> None:
        self._shown: set[tuple[GaugeName, str]] = set()

    def set(self, snapshot: Snapshot, ledger: Ledger, usages: Mapping[str, Usage]) -> None:
        """Shows what was seen last."""
        metrics.gauge("trackside.worker.host_memory.bytes").set(snapshot.host.memory_bytes)
        metrics.gauge("trackside.worker.host_available.bytes").set(snapshot.host.available_bytes)
        metrics.gauge("trackside.worker.host_processor.percent").set(round(snapshot.cpu_percent, 1))
        shown: dict[tuple[GaugeName, str], float] = {}
        for device_id, use in device_uses(snapshot, ledger, usages).items():
            shown["trackside.worker.device_total.bytes", device_id] = use.total_bytes
            shown["trackside.worker.device_memory.bytes", device_id] = use.used_bytes
            shown["trackside.worker.device_reserved.bytes", device_id] = use.reserved_bytes
            shown["trackside.worker.device.tasks", device_id] = use.tasks
            if use.percent is not None:
                shown["trackside.worker.device_utilisation.percent", device_id] = use.percent
        for (name, device_id), value in shown.items():
            metrics.gauge(name).labels(device=device_id).set(value)
        for name, device_id in sorted(self._shown - shown.keys()):
            metrics.gauge(name).remove(device_id)
        self._shown = set(shown)
