"""How long tasks have held each device, so that the rate of it is the use of the device."""

from collections.abc import Collection

from trackside.eventlog.clock import monotonic_s
from trackside.telemetry.metrics import counter
from trackside.worker.placements.ledger import HAS_DEVICES, Ledger


class DeviceTime:
    """Adds up, whenever it is told that the allocations may have changed, since when a device was held.

    Tasks of milliseconds count as they are: nothing is sampled.
    """

    def __init__(self, device_ids: Collection[str]) -> None:
        self._held: frozenset[str] = frozenset()
        self._since_s = monotonic_s()
        self._seconds = {
            device_id: counter("trackside.worker.device_busy.seconds").labels(device_id)
            for device_id in device_ids
        }

    def update(self, ledger: Ledger) -> None:
        """Counts the time since the last update for the devices that were held until now."""
        now_s = monotonic_s()
        for device_id in self._held:
            self._seconds[device_id].inc(now_s - self._since_s)
        self._since_s = now_s
        self._held = frozenset(
            device_id
            for allocation in ledger.allocations.values()
            if allocation.stage in HAS_DEVICES
            for device_id in allocation.claim.device_ids
            if device_id in self._seconds
        )
