"""A device as the scheduler sees it: its tasks, those that wait there, and what of it is free. Pure."""

from dataclasses import dataclass, field

from trackside.contracts.envelope.memory import MAX_BYTES
from trackside.contracts.fleet.fleet import Device
from trackside.domain.fleet.fleet import Worker
from trackside.scheduler.hosts.booking import Booking
from trackside.scheduler.hosts.requirements import Requirements

AHEAD_MS = 200
"""How long tasks that wait on a device may take together for one more to be placed behind them, in ms."""
MOST_AHEAD = 8
"""The most tasks that wait on a device."""
MOST_ON_HOST = 32
"""The most that wait on a host, divided by its devices, but one on each.

With many devices, the time between two tasks of one of them is not what limits.
"""


def most_ahead(devices: int, look_ahead: int) -> int:
    """Returns how many short tasks may wait on each of so many devices of a host.

    `look_ahead` is the number that the operator allows.
    """
    return min(look_ahead, max(1, min(MOST_AHEAD, MOST_ON_HOST // max(1, devices))))


def is_short(expected_ms: int | None) -> bool:
    """Returns whether tasks that are expected to have a device for so long may wait there with others."""
    return expected_ms is not None and expected_ms < AHEAD_MS


@dataclass(slots=True, eq=False)
class DeviceState:
    """A device and the tasks on it; `waiting` are those placed after the running ones, in their order."""

    spec: Device
    rank: int
    healthy: bool = True
    most_ahead: int = 1
    """How many tasks may wait on it."""
    draining: bool = False
    """Whether it gets no new tasks; a task that needs it waits until it is resumed."""
    foreign_bytes: int = 0
    utilisation: float = 0.0
    bookings: dict[str, Booking] = field(default_factory=dict)
    waiting: tuple[Booking, ...] = ()
    is_full: bool = False
    """Whether it had as many waiting tasks as may wait, and more than half of them still do.

    Until then no others are placed behind them, so that several are placed at once.
    """
    avoided_until_ms: dict[Requirements | None, int] = field(default_factory=dict)
    """Until when (ms since 1970) it gets no task with these requirements; None means every task."""

    is_gpu: bool = False
    """Whether several tasks may share it."""
    is_exclusive: bool = False
    """Whether one of its tasks needs the whole device."""
    free_bytes: int = 0
    """Bytes that are neither reserved nor used."""
    room_bytes: int = 0
    """Bytes for one more task: MAX_BYTES if all is free or its size unknown, -1 if it is exclusive."""

    def __post_init__(self) -> None:
        """Computes the derived fields."""
        self.is_gpu = self.spec.kind == "gpu"
        self.refresh()

    @property
    def takes_tasks(self) -> bool:
        """Whether it has neither failed nor is draining."""
        return self.healthy and not self.draining

    def refresh(self) -> None:
        """Computes the derived fields again after a booking was added, removed or changed."""
        if not self.bookings:
            self.is_exclusive, self.waiting = False, ()
            self.free_bytes, self.room_bytes = self.spec.memory_bytes - self.foreign_bytes, MAX_BYTES
            return
        nominated: list[Booking] = []
        behind: list[Booking] = []
        running: list[Booking] = []
        self.is_exclusive = False
        for booking in self.bookings.values():
            self.is_exclusive = self.is_exclusive or booking.whole_device
            is_behind = booking.behind and not booking.training
            (nominated if booking.nominated else behind if is_behind else running).append(booking)
        waiting: list[Booking] = []
        free = (
            self.spec.memory_bytes
            - self.foreign_bytes
            - sum([booking.cuda_memory_bytes for booking in running])
        )
        if len(behind) > 1:
            behind.sort(key=lambda booking: booking.assigned_ms)
        for booking in behind:
            fits = booking.cuda_memory_bytes <= free and not self._excludes(booking, running)
            if not waiting and (fits or not running):
                free -= booking.cuda_memory_bytes
                running.append(booking)
            else:
                waiting.append(booking)
        self.waiting = tuple(waiting)
        self.free_bytes = free - sum([booking.cuda_memory_bytes for booking in nominated])
        total = self.spec.memory_bytes
        all_free = total == 0 or self.free_bytes >= total
        self.room_bytes = -1 if self.is_exclusive else MAX_BYTES if all_free else self.free_bytes

    @property
    def ends(self) -> bool:
        """Whether it has tasks, and all of them end: nothing waits for a service."""
        return bool(self.bookings) and not any(booking.endless for booking in self.bookings.values())

    def takes_one_behind(self, expected_ms: int | None) -> bool:
        """Returns whether one more task may wait here, of those that are expected to take so long.

        The first one may take any time. Others wait with it only if all of them are short.
        """
        if self.is_full or self._has_enough_waiting():
            return False
        return not self.waiting or is_short(expected_ms)

    def update_fullness(self) -> None:
        """Updates `is_full`; not while a booking is removed for a moment, to be replaced by another one.

        The place of a recalled task is for the one that it was recalled for, so it is filled at once.
        """
        stays_full = self.is_full and 2 * len(self.waiting) > self.most_ahead
        is_recalling = any(booking.recalled for booking in self.waiting)
        self.is_full = not is_recalling and (stays_full or self._has_enough_waiting())

    def _has_enough_waiting(self) -> bool:
        if len(self.waiting) >= self.most_ahead:
            return True
        ahead = [booking.expected_ms for booking in self.waiting]
        known = [ms for ms in ahead if ms is not None]
        return len(known) < len(ahead) or sum(known) >= AHEAD_MS

    def _excludes(self, booking: Booking, others: list[Booking]) -> bool:
        return not self.is_gpu or booking.whole_device or any(other.whole_device for other in others)


def host_limit(worker: Worker, task_type: str) -> int:
    """Returns the most memory of the host, bytes; 0 if it is neither limited nor known."""
    return _smaller(worker.memory_bytes, worker.max_memory_bytes.get(task_type, 0))


def device_limit(worker: Worker, device: Device, task_type: str) -> int:
    """Returns the most memory of a GPU, bytes; 0 if it is neither limited nor known."""
    return _smaller(device.memory_bytes, worker.max_cuda_memory_bytes.get(task_type, 0))


def _smaller(size_bytes: int, allowed_bytes: int) -> int:
    return min(size_bytes, allowed_bytes) if size_bytes and allowed_bytes else size_bytes or allowed_bytes
