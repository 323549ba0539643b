"""All hosts as the fleet and the heartbeats tell of them, and which of them may have more room. Pure."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from trackside.contracts.fleet import WorkerHeartbeat
from trackside.domain.fleet import Fleet, Worker
from trackside.scheduler.occupancy import Booking, Gates, Host, host_of
from trackside.scheduler.requirements import Requirements
from trackside.scheduler.timers import Timers

GONE_MS = 30_000
"""How long a worker that is gone counts as one that will be back, before tasks are called unschedulable."""
WORTH_A_LOOK_BYTES = 64 * 1024**2
"""How much more must be free on a host, by its heartbeat, for waiting tasks to be looked at again."""


@dataclass(slots=True)
class Hosts:
    """Hosts by worker, `open` those that get tasks, `gained` those with more room than before."""

    gates: Gates = field(default_factory=Gates)
    by_id: dict[str, Host] = field(default_factory=dict)
    open: list[Host] = field(default_factory=list)
    gained: dict[str, None] = field(default_factory=dict)
    avoided: Timers = field(default_factory=Timers)
    version: int = 0
    _foreign: dict[str, list[int]] = field(default_factory=dict)
    _beats: dict[str, WorkerHeartbeat] = field(default_factory=dict)

    def follow(
        self, fleet: Fleet, is_open: Callable[[Worker], bool], bookings: Collection[tuple[str, Booking]]
    ) -> None:
        """Takes in which workers are there; `bookings` are (worker, booking) of all that have a place."""
        renewed = set()
        for rank, worker in enumerate(fleet.workers.values()):
            host = self.by_id.get(worker.worker_id)
            if host is None or host.worker is not worker:
                host = self.by_id[worker.worker_id] = host_of(worker, rank)
                renewed.add(worker.worker_id)
                if (beat := self._beats.pop(worker.incarnation, None)) is not None:
                    host.read(beat)
            host.open = is_open(worker)
            host.mark(worker.unhealthy)
        for worker_id, booking in bookings:
            if worker_id in renewed:
                self.by_id[worker_id].book(booking)
        self.open = [host for host in self.by_id.values() if host.open]
        there = {host.worker.incarnation for host in self.by_id.values()}
        self._foreign = {name: seen for name, seen in self._foreign.items() if name in there}
        self._beats = {name: beat for name, beat in self._beats.items() if not fleet.knows(name)}
        self.version += 1

    def heard(self, beat: WorkerHeartbeat) -> None:
        """Takes in a heartbeat; one of an incarnation that hasn't joined yet is kept for then."""
        host = self.by_id.get(beat.worker_id)
        if host is None or host.worker.incarnation != beat.incarnation:
            self._beats[beat.incarnation] = beat
            return
        was_busy = self._is_busy(host)
        host.read(beat)
        now = [host.foreign, *(slot.foreign for slot in host.slots.values())]
        before = self._foreign.get(beat.incarnation, now)
        less = any(a < b - WORTH_A_LOOK_BYTES for a, b in zip(now, before, strict=True))
        if less or (was_busy and not self._is_busy(host)):
            self.gained[beat.worker_id] = None
        most = now if less else [max(a, b) for a, b in zip(now, before, strict=True)]
        self._foreign[beat.incarnation] = most

    def _is_busy(self, host: Host) -> bool:
        return 0 < self.gates.max_cpu_percent <= host.cpu_percent

    def book(self, worker_id: str, booking: Booking) -> None:
        """Counts a task in where its worker is known."""
        if (host := self.by_id.get(worker_id)) is not None:
            host.book(booking)

    def unbook(self, worker_id: str, task_id: str) -> None:
        """Counts a task out."""
        if (host := self.by_id.get(worker_id)) is not None:
            host.unbook(task_id)
            self.gained[worker_id] = None

    def recount(self, worker_id: str, booking: Booking) -> None:
        """Counts anew after a booking has changed."""
        if (host := self.by_id.get(worker_id)) is not None:
            host.recount(booking)
            self.gained[worker_id] = None

    def avoid(
        self, worker_id: str, device_ids: Sequence[str], requirements: Requirements | None, until_ms: int
    ) -> None:
        """Leaves devices alone for a while: for such tasks, or for all."""
        host = self.by_id.get(worker_id)
        for device_id in device_ids:
            slot = None if host is None else host.slots.get(device_id)
            if slot is not None:
                slot.avoided[requirements] = until_ms
                self.avoided.set(f"{worker_id} {device_id} {until_ms}", until_ms)

    def advance(self, now_ms: int) -> None:
        """Lets time pass: devices that were left alone for long enough are looked at again."""
        for name in self.avoided.pop_due(now_ms):
            worker_id, device_id, _ = name.split(" ")
            host = self.by_id.get(worker_id)
            slot = None if host is None else host.slots.get(device_id)
            if slot is not None:
                slot.avoided = {
                    requirements: until for requirements, until in slot.avoided.items() if until > now_ms
                }
                self.gained[worker_id] = None

    def judged(self, now_ms: int) -> list[Host]:
        """Gives the hosts by which tasks are called unschedulable: those there, or gone only just now."""
        return [
            host
            for host in self.by_id.values()
            if not host.worker.gone or now_ms - host.worker.gone_ms < GONE_MS
        ]

    def next_judgement_ms(self, now_ms: int) -> int | None:
        """Gives when a worker that is gone is given up, ms since 1970."""
        ends = (host.worker.gone_ms + GONE_MS for host in self.by_id.values() if host.worker.gone)
        return min((end for end in ends if end > now_ms), default=None)

    @property
    def busy_devices(self) -> int:
        """Counts the devices that have a task."""
        return sum(bool(slot.bookings) for host in self.by_id.values() for slot in host.slots.values())
