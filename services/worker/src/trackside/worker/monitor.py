"""Passes samples of the host to the ledger, to heartbeats, to Prometheus and to the metrics of tasks."""

import asyncio
from collections.abc import Callable

from trackside.contracts.fleet.fleet import WorkerHeartbeat
from trackside.eventlog.clock import now_ms
from trackside.worker.attempts.memory.memory_pressure import MemoryPressure
from trackside.worker.gauges import Gauges
from trackside.worker.host.sampler import HostSampler, Snapshot
from trackside.worker.host.usage import Usage
from trackside.worker.messages.report_messages import MetricPoint
from trackside.worker.placements.controller import PlacementController
from trackside.worker.placements.ledger import HAS_DEVICES
from trackside.worker.placements.local_placement import LocalPlacement
from trackside.worker.placements.sharing import idle_neighbour_bytes, neighbour_uses, used_by_neighbours

MAX_SENTENCE = 1_000
SERIES_EVERY_S = 5.0
"""Seconds between two points of a task's series; the first comes with its first sample."""


class HostMonitor:
    """Takes a sample every `interval_s` and updates the ledger by it."""

    def __init__(
        self,
        sampler: HostSampler,
        placements: PlacementController,
        pressure: MemoryPressure,
        interval_s: float = 1.0,
        check_disk: Callable[[], str] = lambda: "",
    ) -> None:
        self._sampler = sampler
        self._placements = placements
        self._pressure = pressure
        self._interval_s = interval_s
        self._check_disk = check_disk
        self._disk_low = ""
        self._samples: dict[str, int] = {}
        self._gauges = Gauges()

    async def run(self) -> None:
        """Takes samples until it is cancelled."""
        while True:
            self._disk_low = await asyncio.to_thread(self._check_disk)
            self._apply(await self._sampler.sample())
            await asyncio.sleep(self._interval_s)

    def with_readings(self, heartbeat: WorkerHeartbeat) -> WorkerHeartbeat:
        """Returns a heartbeat with the last sample added, and what keeps tasks from being started."""
        snapshot = self._sampler.snapshot
        if snapshot is None:
            return heartbeat
        ledger = self._placements.ledger
        idle_bytes = self._placements.warm.memory_bytes + idle_neighbour_bytes(ledger)
        return heartbeat.model_copy(
            update={
                "disk_low": self._disk_low[:MAX_SENTENCE],
                "devices": tuple(snapshot.devices.values()),
                "available_bytes": snapshot.host.available_bytes + idle_bytes,
                "cpu_percent": round(snapshot.cpu_percent, 1),
                "neighbours": neighbour_uses(ledger),
            }
        )

    def _apply(self, snapshot: Snapshot) -> None:
        self._pressure.record(snapshot.host)
        ledger = self._placements.ledger
        ledger.foreign_bytes = max(0, snapshot.foreign_bytes - used_by_neighbours(ledger))
        usages = [use.usage for use in snapshot.tasks.values()]
        ledger.used_memory_bytes = sum(usage.memory_bytes for usage in usages)
        ledger.used_bytes_by_device = {
            each: sum(usage.cuda_memory_bytes_by_device.get(each, 0) for usage in usages)
            for each in snapshot.devices
        }
        ledger.foreign_bytes_by_device = {
            each: found.foreign_bytes for each, found in snapshot.devices.items()
        }
        self._samples = {key: samples for key, samples in self._samples.items() if key in snapshot.tasks}
        for key, use in snapshot.tasks.items():
            placement = self._placements.active.get(key)
            allocation = placement.allocation if placement is not None else ledger.allocations.get(key)
            if allocation is not None:
                allocation.record_usage(use.peak.memory_bytes, use.peak.cuda_memory_bytes)
            if placement is not None:
                placement.check_memory(use.usage.memory_bytes)
                self._add_points(placement, use.usage, _gpu_percent(placement, snapshot))
        self._gauges.set(snapshot, ledger, {key: use.usage for key, use in snapshot.tasks.items()})
        self._placements.advance()

    def _add_points(self, placement: LocalPlacement, usage: Usage, gpu_percent: float | None) -> None:
        """Adds a point to each system metric of a task, every SERIES_EVERY_S."""
        samples = self._samples[placement.key] = self._samples.get(placement.key, -1) + 1
        every = max(1, round(SERIES_EVERY_S / self._interval_s))
        if samples % every:
            return
        step, time_ms = samples // every, now_ms()
        points: list[MetricPoint] = [
            MetricPoint("system/memory_bytes", step, time_ms, float(usage.memory_bytes)),
            MetricPoint("system/cpu_percent", step, time_ms, round(usage.cpu_percent, 1)),
        ]
        if usage.cuda_memory_bytes_by_device:
            in_all = float(sum(usage.cuda_memory_bytes_by_device.values()))
            points.append(MetricPoint("system/cuda_memory_bytes", step, time_ms, in_all))
        if gpu_percent is not None:
            points.append(MetricPoint("system/gpu_percent", step, time_ms, gpu_percent))
        placement.reporter.points(points)


def _gpu_percent(placement: LocalPlacement, snapshot: Snapshot) -> float | None:
    """Returns the mean utilisation of a task's GPUs in percent; None if no GPU reports it."""
    found = [snapshot.devices[each] for each in placement.entry.device_ids if each in snapshot.devices]
    known = [reading.utilisation for reading in found if reading.utilisation is not None]
    if placement.allocation.stage not in HAS_DEVICES or not known:
        return None
    return round(sum(known) / len(known), 1)
