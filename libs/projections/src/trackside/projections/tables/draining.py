"""Rows of devices that are drained."""

from collections.abc import Iterable

from trackside.contracts.envelope.message import Event
from trackside.contracts.fleet.draining import DeviceDrained, DeviceResumed
from trackside.domain.rows.cells import without_nul
from trackside.domain.rows.table import RowKey, RowValues, Table
from trackside.domain.streams.stream import Stream


class DrainedDeviceRows:
    """One row per device that is drained: the stream of the commands has the id of its worker."""

    table = Table(
        "drained_devices",
        ("worker_id", "device_id", "reason", "drained_ms"),
        key_width=2,
        grouped=True,
        changes_after_close=True,
    )

    def touched(self, stream: Stream, event: Event) -> Iterable[RowKey]:
        """Returns the worker one of whose devices was drained or resumed."""
        return ((stream.stream_id,),) if isinstance(event, DeviceDrained | DeviceResumed) else ()

    def keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns the devices that are drained."""
        return ((stream.stream_id, device_id) for device_id in stream.drained)

    def row(self, stream: Stream, key: RowKey) -> RowValues:
        """Computes the row of a device."""
        drained = stream.drained[key[1]]
        return (*key, without_nul(drained.reason), drained.drained_ms)
