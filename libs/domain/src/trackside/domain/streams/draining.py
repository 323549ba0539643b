"""Devices that get no new tasks, as the stream of their worker's id has it. Pure."""

from dataclasses import dataclass

from trackside.contracts.envelope.message import Record
from trackside.contracts.fleet.draining import DeviceDrained, DeviceResumed


@dataclass(frozen=True, slots=True)
class DrainedDevice:
    """Why a device is drained, and since when, in ms since 1970 by the log's clock."""

    reason: str
    drained_ms: int


def change(drained: dict[str, DrainedDevice], event: DeviceDrained | DeviceResumed, record: Record) -> None:
    """Changes which devices are drained, by their ids."""
    match event:
        case DeviceDrained():
            drained[event.device_id] = DrainedDevice(event.reason, record.append_time_ms)
        case DeviceResumed():
            drained.pop(event.device_id, None)
