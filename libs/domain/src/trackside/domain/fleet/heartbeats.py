"""Heartbeats of workers: when a worker sends a whole one, and what a digest means to a reader. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from trackside.contracts.fleet.fleet import (
    DeviceReading,
    NeighbourUse,
    RunningPlacement,
    WorkerHeartbeat,
    WorkerHeartbeatDigest,
)

WHOLE_EVERY_S = 9.0
"""Seconds after which the next heartbeat is whole: with one a second, at most 10 s, also if one is late."""
WHOLE_EVERY = 10
"""How many heartbeats have a whole one among them, so that a reader of the newest ones finds one."""
TOLERANCE_BYTES = 64 * 1024**2
"""How far memory may be from what the whole heartbeat says; a scheduler ignores less, too."""
TOLERANCE_OF_FREE = 100
"""Host memory may also be off by what is free divided by this: where little is left, less is tolerated."""
TOLERANCE_PERCENT = 1.0


@dataclass(slots=True)
class HeartbeatDigester:
    """Numbers the heartbeats of one incarnation, and says which of them may be digests.

    A digest rests on the newest whole heartbeat. While it is not known whether the log has that, the next
    heartbeat is whole, too.
    """

    _sequence: int = 0
    _whole: WorkerHeartbeat | None = None
    _sent_s: float = 0.0

    def next(self, heartbeat: WorkerHeartbeat, now_s: float) -> WorkerHeartbeat | WorkerHeartbeatDigest:
        """Returns what to send at a monotonic time: the heartbeat with its number, or a digest of it."""
        self._sequence += 1
        whole = self._whole
        if (
            whole is None
            or now_s - self._sent_s >= WHOLE_EVERY_S
            or self._sequence - whole.sequence >= WHOLE_EVERY
            or not is_within(whole, heartbeat)
        ):
            self._whole = None  # until it is known to be in the log
            return heartbeat.model_copy(update={"sequence": self._sequence})
        return WorkerHeartbeatDigest(
            incarnation=heartbeat.incarnation,
            sequence=self._sequence,
            whole=whole.sequence,
            cpu_percent=_moved(whole.cpu_percent, heartbeat.cpu_percent),
            utilisation=_moved_utilisation(whole.devices, heartbeat.devices),
        )

    def sent(self, message: WorkerHeartbeat | WorkerHeartbeatDigest, now_s: float) -> None:
        """Records that a heartbeat, returned at a monotonic time, is in the log."""
        if isinstance(message, WorkerHeartbeat):
            self._whole, self._sent_s = message, now_s


@dataclass(slots=True)
class HeartbeatViews:
    """The newest whole heartbeat by incarnation, so that each digest means a whole one."""

    wholes: dict[str, WorkerHeartbeat] = field(default_factory=dict)

    def read(self, message: WorkerHeartbeat | WorkerHeartbeatDigest) -> WorkerHeartbeat | None:
        """Returns the heartbeat that a message means; None if the worker lives and no more is known."""
        known = self.wholes.get(message.incarnation)
        if isinstance(message, WorkerHeartbeat):
            if known is not None and 0 < message.sequence < known.sequence:
                return None  # written late: a newer one is known
            self.wholes[message.incarnation] = message
            return message
        if known is None or known.sequence != message.whole:
            return None
        return _with_use(known, message)

    def retain(self, kept: Callable[[str], bool]) -> None:
        """Forgets all other incarnations."""
        self.wholes = {name: whole for name, whole in self.wholes.items() if kept(name)}


def is_within(whole: WorkerHeartbeat, now: WorkerHeartbeat) -> bool:
    """Returns whether a whole heartbeat still says what a worker runs and which memory is free.

    What runs must be the same. Memory may differ by the tolerances; use of processors is not compared.
    """
    if (
        bool(whole.disk_low) != bool(now.disk_low)
        or (whole.available_bytes is None) != (now.available_bytes is None)
        or (whole.cpu_percent is None) != (now.cpu_percent is None)
        or [*map(_placement, whole.running)] != [*map(_placement, now.running)]
        or [*map(_device, whole.devices)] != [*map(_device, now.devices)]
        or [*map(_neighbour, whole.neighbours)] != [*map(_neighbour, now.neighbours)]
    ):
        return False
    before, free = whole.available_bytes or 0, now.available_bytes or 0
    host_tolerance = max(TOLERANCE_BYTES, min(before, free) // TOLERANCE_OF_FREE)
    return (
        abs(before - free) <= host_tolerance
        and _is_near(_peaks(whole.running), _peaks(now.running), host_tolerance)
        and _is_near(_of_neighbours(whole.neighbours), _of_neighbours(now.neighbours), host_tolerance)
        and _is_near(_device_bytes(whole), _device_bytes(now), TOLERANCE_BYTES)
    )


def _is_near(before: Iterable[int], now: Iterable[int], tolerance: int) -> bool:
    """Returns whether all differences together are tolerated."""
    return sum(abs(a - b) for a, b in zip(before, now, strict=True)) <= tolerance


def _placement(running: RunningPlacement) -> tuple[object, ...]:
    return (running.stream, running.task_id, running.attempt, running.placement, running.device_ids)


def _device(reading: DeviceReading) -> tuple[object, ...]:
    return (reading.device_id, reading.utilisation is None)


def _neighbour(use: NeighbourUse) -> tuple[object, ...]:
    return (use.incarnation, sorted(use.device_bytes))


def _peaks(running: Iterable[RunningPlacement]) -> list[int]:
    return [peak for each in running for peak in (each.peak_memory_bytes, each.peak_cuda_memory_bytes)]


def _of_neighbours(neighbours: Iterable[NeighbourUse]) -> list[int]:
    return [use.memory_bytes for use in neighbours]


def _device_bytes(heartbeat: WorkerHeartbeat) -> list[int]:
    readings = [number for each in heartbeat.devices for number in (each.used_bytes, each.foreign_bytes)]
    return readings + [
        use.device_bytes[name] for use in heartbeat.neighbours for name in sorted(use.device_bytes)
    ]


def _moved(before: float | None, now: float | None) -> float | None:
    """Returns a percentage that is not as before, and None for one that is."""
    if before is None or now is None or abs(before - now) < TOLERANCE_PERCENT:
        return None
    return now


def _moved_utilisation(before: Iterable[DeviceReading], now: Iterable[DeviceReading]) -> list[float | None]:
    """Returns the utilisation of devices that is not as before; [] if all is."""
    found = [_moved(a.utilisation, b.utilisation) for a, b in zip(before, now, strict=True)]
    return found if any(each is not None for each in found) else []


def _with_use(whole: WorkerHeartbeat, digest: WorkerHeartbeatDigest) -> WorkerHeartbeat:
    """Returns a whole heartbeat with the use of processors that a digest reports."""
    changed: dict[str, object] = {"sequence": digest.sequence}
    if digest.cpu_percent is not None:
        changed["cpu_percent"] = digest.cpu_percent
    if len(digest.utilisation) == len(whole.devices) and digest.utilisation:
        changed["devices"] = tuple(
            reading if now is None else reading.model_copy(update={"utilisation": now})
            for reading, now in zip(whole.devices, digest.utilisation, strict=True)
        )
    return whole.model_copy(update=changed)
