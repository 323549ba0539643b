"""Makes use of what the watch sees: for the ledger, for heartbeats, and as series to look at."""

import asyncio

from trackside.contracts.fleet import WorkerHeartbeat
from trackside.eventlog.clock import now_ms
from trackside.worker.attempts.memory_pressure import Pressure
from trackside.worker.gauges import Gauges
from trackside.worker.host.sampler import Snapshot, Watch
from trackside.worker.host.usage import Usage
from trackside.worker.placements.ledger import HAS_DEVICES
from trackside.worker.placements.placement import Held
from trackside.worker.placements.placements import Placements
from trackside.worker.reporting.reporter import Point

SERIES_EVERY_S = 5.0
"""Time between two points of a task's series, s; the first comes with the first look at it."""


class Observing:
    """Looks every `interval_s` at host, devices and tasks, and tells the placements what is free."""

    def __init__(
        self, watch: Watch, placements: Placements, pressure: Pressure, interval_s: float = 1.0
    ) -> None:
        self._watch = watch
        self._placements = placements
        self._pressure = pressure
        self._interval_s = interval_s
        self._looks: dict[str, int] = {}
        self._gauges = Gauges()

    async def run(self) -> None:
        """Looks again and again, for ever."""
        while True:
            self._take(await self._watch.look())
            await asyncio.sleep(self._interval_s)

    def seen(self, beat: WorkerHeartbeat) -> WorkerHeartbeat:
        """Adds to a heartbeat what was seen last."""
        snapshot = self._watch.snapshot
        if snapshot is None:
            return beat
        return beat.model_copy(
            update={
                "devices": tuple(snapshot.devices.values()),
                "available_bytes": snapshot.host.available_bytes + self._placements.warm.memory_bytes,
                "cpu_percent": round(snapshot.cpu_percent, 1),
            }
        )

    def _take(self, snapshot: Snapshot) -> None:
        self._pressure.look(snapshot.host)
        ledger = self._placements.ledger
        ledger.foreign_bytes = snapshot.foreign_bytes
        ledger.foreign = {each: found.foreign_bytes for each, found in snapshot.devices.items()}
        self._looks = {key: looks for key, looks in self._looks.items() if key in snapshot.tasks}
        for key, use in snapshot.tasks.items():
            held = self._placements.here.get(key)
            holding = held.holding if held is not None else ledger.holdings.get(key)
            if holding is not None:
                holding.saw(use.peak.memory_bytes, use.peak.cuda_memory_bytes)
            if held is not None:
                self._tell(held, use.usage, _busy(held, snapshot))
        self._gauges.set(snapshot, ledger, {key: use.usage for key, use in snapshot.tasks.items()})
        self._placements.advance()

    def _tell(self, held: Held, usage: Usage, gpu_percent: float | None) -> None:
        """Adds a point to each series of a task, every SERIES_EVERY_S."""
        looks = self._looks[held.key] = self._looks.get(held.key, -1) + 1
        every = max(1, round(SERIES_EVERY_S / self._interval_s))
        if looks % every:
            return
        step, time_ms = looks // every, now_ms()
        points: list[Point] = [
            ("system/memory_bytes", step, time_ms, float(usage.memory_bytes)),
            ("system/cpu_percent", step, time_ms, round(usage.cpu_percent, 1)),
        ]
        if usage.cuda_memory_bytes_by_device:
            in_all = float(sum(usage.cuda_memory_bytes_by_device.values()))
            points.append(("system/cuda_memory_bytes", step, time_ms, in_all))
        if gpu_percent is not None:
            points.append(("system/gpu_percent", step, time_ms, gpu_percent))
        held.reporter.points(points)


def _busy(held: Held, snapshot: Snapshot) -> float | None:
    """Gives how busy a task's GPUs are, in percent, the mean of them; None without one that tells."""
    found = [snapshot.devices[each] for each in held.placement.device_ids if each in snapshot.devices]
    known = [reading.utilisation for reading in found if reading.utilisation is not None]
    if held.holding.stage not in HAS_DEVICES or not known:
        return None
    return round(sum(known) / len(known), 1)
