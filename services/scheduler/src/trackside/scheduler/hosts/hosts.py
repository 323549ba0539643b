"""All hosts, kept up to date from the fleet and heartbeats, and which of them gained room. Pure."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from trackside.contracts.fleet.fleet import NeighbourUse, WorkerHeartbeat
from trackside.contracts.tasks.tasks import TaskRefused
from trackside.domain.fleet.fleet import Fleet, Worker
from trackside.domain.tasks.task import Task
from trackside.scheduler.hosts.booking import Booking
from trackside.scheduler.hosts.device_state import DeviceState
from trackside.scheduler.hosts.occupancy import AdmissionLimits, HostState, empty_host
from trackside.scheduler.hosts.requirements import Requirements, requirements_of
from trackside.scheduler.hosts.timers import Timers

GONE_GRACE_MS = 30_000
"""How long a worker that is gone may return before its tasks are called unschedulable."""
RESCAN_THRESHOLD_BYTES = 64 * 1024**2
"""How much a heartbeat must free on a host for waiting tasks to be tried there again."""


@dataclass(slots=True)
class Hosts:
    """Hosts by worker id; `open` get tasks, `gained_room` have more room than at the last pass.

    Each worker is a host; where several run on one, they are neighbours, and share what they book.
    """

    admission: AdmissionLimits = field(default_factory=AdmissionLimits)
    look_ahead: int = 1
    by_id: dict[str, HostState] = field(default_factory=dict)
    open: list[HostState] = field(default_factory=list)
    gained_room: dict[str, None] = field(default_factory=dict)
    avoid_timers: Timers = field(default_factory=Timers)
    version: int = 0
    _highest_foreign_bytes: dict[str, list[int]] = field(default_factory=dict)
    _early_heartbeats: dict[str, WorkerHeartbeat] = field(default_factory=dict)
    _present: frozenset[str] = frozenset()
    """The incarnations that are there."""

    def sync_fleet(
        self,
        fleet: Fleet,
        is_open: Callable[[Worker], bool],
        bookings: Collection[tuple[str, Booking]],
        drained: Mapping[str, Collection[str]] = MappingProxyType({}),
    ) -> None:
        """Follows joins and losses of workers; `bookings` are (worker id, booking) of all placed tasks.

        `drained` are the device ids, by worker id, that get no new tasks under any of their names.
        """
        replaced = set()
        uuids = _uuids(fleet, drained)
        self._present = frozenset(worker.incarnation for worker in fleet.workers.values() if not worker.gone)
        for rank, worker in enumerate(fleet.workers.values()):
            host = self.by_id.get(worker.worker_id)
            if host is None or host.worker is not worker:
                host = self.by_id[worker.worker_id] = empty_host(worker, rank, self.look_ahead)
                replaced.add(worker.worker_id)
                if (heartbeat := self._early_heartbeats.pop(worker.incarnation, None)) is not None:
                    host.apply_heartbeat(heartbeat, self._strangers(heartbeat))
            host.open = is_open(worker)
            here = drained.get(worker.worker_id, ())
            draining = {name for name, each in worker.devices.items() if name in here or each.uuid in uuids}
            host.set_unhealthy(worker.unhealthy, draining)
        for worker_id, booking in bookings:
            if worker_id in replaced:
                self.by_id[worker_id].book(booking)
        if replaced:
            link_neighbours(self.by_id.values())
        self.open = [host for host in self.by_id.values() if host.open]
        known = {host.worker.incarnation for host in self.by_id.values()}
        self._highest_foreign_bytes = {
            name: seen for name, seen in self._highest_foreign_bytes.items() if name in known
        }
        self._early_heartbeats = {
            name: heartbeat for name, heartbeat in self._early_heartbeats.items() if not fleet.knows(name)
        }
        self.version += 1

    def apply_heartbeat(self, heartbeat: WorkerHeartbeat) -> None:
        """Applies a heartbeat; one of an incarnation that has not joined yet is kept until it does."""
        host = self.by_id.get(heartbeat.worker_id)
        if host is None or host.worker.incarnation != heartbeat.incarnation:
            self._early_heartbeats[heartbeat.incarnation] = heartbeat
            return
        was_busy = self._is_busy(host)
        host.apply_heartbeat(heartbeat, self._strangers(heartbeat))
        now = [host.foreign_bytes, *(device.foreign_bytes for device in host.devices.values())]
        before = self._highest_foreign_bytes.get(heartbeat.incarnation, now)
        freed = any(a < b - RESCAN_THRESHOLD_BYTES for a, b in zip(now, before, strict=True))
        if freed or (was_busy and not self._is_busy(host)):
            self.note_room(heartbeat.worker_id)
        highest = now if freed else [max(a, b) for a, b in zip(now, before, strict=True)]
        self._highest_foreign_bytes[heartbeat.incarnation] = highest

    def _strangers(self, heartbeat: WorkerHeartbeat) -> list[NeighbourUse]:
        """Returns the neighbours that belong to another log: nothing is booked here of what they have."""
        return [other for other in heartbeat.neighbours if other.incarnation not in self._present]

    def _is_busy(self, host: HostState) -> bool:
        return 0 < self.admission.max_cpu_percent <= host.cpu_percent

    def book(self, worker_id: str, booking: Booking) -> None:
        """Adds a booking if the worker is known."""
        if (host := self.by_id.get(worker_id)) is not None:
            host.book(booking)
            if host.worker.gone and not host.neighbours:  # without a task, it had been left out
                link_neighbours(self.by_id.values())

    def unbook(self, worker_id: str, task_id: str) -> None:
        """Removes a booking."""
        if (host := self.by_id.get(worker_id)) is not None:
            host.unbook(task_id)
            self.note_room(worker_id)

    def note_room(self, worker_id: str) -> None:
        """Notes that a worker, and with it its neighbours, may have more room than at the last pass."""
        host = self.by_id[worker_id]
        self.gained_room[worker_id] = None
        for other in host.neighbours:
            self.gained_room[other.worker.worker_id] = None

    def avoid(
        self, worker_id: str, device_ids: Sequence[str], requirements: Requirements | None, until_ms: int
    ) -> None:
        """Keeps tasks with these requirements (None: all) off devices until a time, ms since 1970.

        Without devices it keeps those that take none off the whole worker.
        """
        host = self.by_id.get(worker_id)
        if host is not None and not device_ids:
            host.avoided_until_ms[requirements] = until_ms
            self.avoid_timers.set(f"{worker_id}  {until_ms}", until_ms)
        for device_id in device_ids:
            device = None if host is None else host.devices.get(device_id)
            if device is not None:
                device.avoided_until_ms[requirements] = until_ms
                self.avoid_timers.set(f"{worker_id} {device_id} {until_ms}", until_ms)

    def advance(self, now_ms: int) -> None:
        """Advances the time: devices that were avoided for long enough are tried again."""
        for name in self.avoid_timers.pop_due(now_ms):
            worker_id, device_id, _ = name.split(" ")
            host = self.by_id.get(worker_id)
            avoided = host if host is None or not device_id else host.devices.get(device_id)
            if avoided is not None:
                avoided.avoided_until_ms = {
                    requirements: until
                    for requirements, until in avoided.avoided_until_ms.items()
                    if until > now_ms
                }
                self.gained_room[worker_id] = None

    def feasibility_hosts(self, now_ms: int) -> list[HostState]:
        """Returns the hosts that decide what is unschedulable: those present or gone for a short time."""
        return [
            host
            for host in self.by_id.values()
            if not host.worker.gone or now_ms - host.worker.gone_ms < GONE_GRACE_MS
        ]

    def next_feasibility_check_ms(self, now_ms: int) -> int | None:
        """Returns when the next worker that is gone stops counting, ms since 1970; None if there is none."""
        ends = (host.worker.gone_ms + GONE_GRACE_MS for host in self.by_id.values() if host.worker.gone)
        return min((end for end in ends if end > now_ms), default=None)

    @property
    def busy_devices(self) -> int:
        """How many devices have a task; one that several workers share counts once."""
        return len(self._names(self.by_id.values(), lambda device: bool(device.bookings)))

    @property
    def free_devices(self) -> int:
        """How many devices have no task and take one: those that have failed or are drained do not."""
        taken = self._names(self.by_id.values(), lambda device: bool(device.bookings))
        return len(self._names(self.open, lambda device: device.takes_tasks) - taken)

    @staticmethod
    def _names(hosts: Iterable[HostState], chosen: Callable[[DeviceState], bool]) -> set[object]:
        """Returns a name for each chosen device of hosts, one only for a GPU that several workers have."""
        return {
            device.spec.uuid or (host.worker.worker_id, device_id)
            for host in hosts
            for device_id, device in host.devices.items()
            if chosen(device)
        }


def _uuids(fleet: Fleet, drained: Mapping[str, Collection[str]]) -> set[str]:
    """Returns the driver's names of drained GPUs, which other workers on the host may have too."""
    found = {
        fleet.workers[worker_id].devices[device_id].uuid
        for worker_id, device_ids in drained.items()
        if worker_id in fleet.workers
        for device_id in device_ids
        if device_id in fleet.workers[worker_id].devices
    }
    return found - {""}


AVOID_MS = 1_000
"""How long a device that refused a task is avoided; twice as long after each refusal of the attempt."""
MAX_AVOID_MS = 30_000


def avoid_refusing_devices(hosts: Hosts, refused: TaskRefused, task: Task, now_ms: int) -> None:
    """Avoids the devices that refused a task; for equal tasks only if they lacked memory."""
    past = task.attempt.past[-1]
    count = sum(other.end == "refused" for other in task.attempt.past)
    until_ms = now_ms + min(AVOID_MS * 2 ** (count - 1), MAX_AVOID_MS)
    requirements = requirements_of(task) if refused.code == "out_of_memory" else None
    if requirements is None:
        until_ms = now_ms + AVOID_MS
    hosts.avoid(past.worker_id, past.device_ids, requirements, until_ms)


def link_neighbours(hosts: Iterable[HostState]) -> None:
    """Makes workers share bookings of GPUs with the same uuid, and of the memory of the same pool.

    A worker that is gone and has no task is left out.
    """
    pools: dict[str, list[HostState]] = defaultdict(list)
    gpus: dict[str, list[tuple[HostState, DeviceState]]] = defaultdict(list)
    for host in hosts:
        _unlink(host)
        if host.worker.gone and not host.bookings:
            continue
        if host.worker.memory_pool:
            pools[host.worker.memory_pool].append(host)
        for device in host.devices.values():
            if device.spec.uuid:
                gpus[device.spec.uuid].append((host, device))
    for members in pools.values():
        for host in members if len(members) > 1 else ():
            host.pool = tuple(other for other in members if other is not host)
            _add_neighbours(host, host.pool)
            host.count_pool()
    for sharing in gpus.values():
        if len(sharing) > 1:
            _share(sharing)


def _unlink(host: HostState) -> None:
    if not host.neighbours:
        return
    host.neighbours, host.pool, host.twins, host.pool_bytes = (), (), {}, 0
    for device in host.devices.values():
        own = {task_id: each for task_id, each in device.bookings.items() if task_id in host.bookings}
        device.bookings = own
    host.refresh_devices(host.devices.values())


def _share(sharing: list[tuple[HostState, DeviceState]]) -> None:
    """Books on a GPU that several workers have what each of them has booked there."""
    bookings = {task_id: each for _, device in sharing for task_id, each in device.bookings.items()}
    for host, device in sharing:
        twins = [(other, twin) for other, twin in sharing if other is not host]
        host.twins[device.spec.device_id] = twins
        _add_neighbours(host, (other for other, _ in twins))
        device.bookings = dict(bookings)
        host.refresh_devices((device,))


def _add_neighbours(host: HostState, others: Iterable[HostState]) -> None:
    new = dict.fromkeys(other.worker.worker_id for other in host.neighbours)
    host.neighbours += tuple(other for other in others if other.worker.worker_id not in new)
