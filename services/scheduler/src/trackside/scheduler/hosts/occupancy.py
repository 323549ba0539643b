"""How much of each host and device is occupied: the larger of what is reserved and what is used. Pure."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from trackside.contracts.fleet.fleet import NeighbourUse, WorkerHeartbeat
from trackside.domain.fleet.fleet import Worker
from trackside.scheduler.hosts.booking import Booking
from trackside.scheduler.hosts.device_state import DeviceState, host_limit, most_ahead
from trackside.scheduler.hosts.requirements import Requirements

ABOVE_ANY_PRIORITY = 10
"""Higher than any priority."""


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    """Memory that tasks leave free, and how busy a worker may be; 0 means no limit.

    They don't hold for a host or a device without a task, so that a task can always run there.
    """

    host_free_share: float = 0.0
    host_free_bytes: int = 0
    device_free_share: float = 0.0
    device_free_bytes: int = 0
    max_cpu_percent: float = 0.0
    max_loading_tasks: int = 0


@dataclass(frozen=True, slots=True)
class OpenDevices:
    """The devices of a host that may take one more task; computed once after each change.

    `idle` (CPU slots) and `gpus` may run it at once; `occupied` have tasks that end, and room behind them.
    `max_gpu_room_bytes` is the room of the GPU that has the most. `lowest_waiting_priority` is the lowest
    priority of a task that waits for a running one. `occupied_kinds` are the kinds of `occupied`.
    """

    idle: tuple[DeviceState, ...]
    gpus: tuple[DeviceState, ...]
    occupied: tuple[DeviceState, ...]
    max_gpu_room_bytes: int
    lowest_waiting_priority: int
    occupied_kinds: frozenset[str]

    def may_fit(self, requirements: Requirements, least_bytes: int, look_ahead: int) -> bool:
        """Returns whether a task that needs at least `least_bytes` of a GPU might be placed on this host."""
        if requirements.preempts_below >= 0 or requirements.device_count == 0:
            return True
        if requirements.kind != "gpu" and self.idle:
            return True
        if requirements.kind != "cpu" and self.max_gpu_room_bytes >= least_bytes:
            return True
        return (
            requirements.allows_look_ahead
            and look_ahead > 0
            and not self.occupied_kinds.isdisjoint(requirements.kinds)
        )

    def free(self, requirements: Requirements, least_bytes: int) -> list[DeviceState]:
        """Returns the devices that may have room for a task that needs at least `least_bytes` of a GPU."""
        found: list[DeviceState] = []
        if requirements.kind != "cpu" and self.max_gpu_room_bytes >= least_bytes:
            found += [device for device in self.gpus if device.room_bytes >= least_bytes]
        if requirements.kind != "gpu":
            found += self.idle
        return _only(requirements.device_id, found)

    def behind(self, requirements: Requirements) -> list[DeviceState]:
        """Returns the devices on which a task may be placed after the running ones."""
        kinds = requirements.kinds
        return _only(
            requirements.device_id, [device for device in self.occupied if device.spec.kind in kinds]
        )


def _only(device_id: str, devices: list[DeviceState]) -> list[DeviceState]:
    return [device for device in devices if device.spec.device_id == device_id] if device_id else devices


def open_devices_of(devices: Iterable[DeviceState]) -> OpenDevices:
    """Returns which of these devices may take one more task."""
    healthy = [device for device in devices if device.takes_tasks]
    for device in healthy:
        device.update_fullness()
    gpus = tuple([device for device in healthy if device.is_gpu and device.room_bytes >= 0])
    occupied = tuple([device for device in healthy if not device.is_full and device.ends])
    return OpenDevices(
        idle=tuple([device for device in healthy if not device.is_gpu and not device.bookings]),
        gpus=gpus,
        occupied=occupied,
        max_gpu_room_bytes=max([device.room_bytes for device in gpus], default=-1),
        lowest_waiting_priority=min(
            [booking.priority for device in healthy for booking in device.waiting],
            default=ABOVE_ANY_PRIORITY,
        ),
        occupied_kinds=frozenset([device.spec.kind for device in occupied]),
    )


@dataclass(slots=True, eq=False)
class HostState:
    """A worker, its devices and its tasks; `rank` is its position in the order of joining.

    `neighbours` are the workers with which it shares memory (`pool`) or a GPU (`twins`, by device id): what
    is booked there is booked here. A shared GPU has the bookings of all its workers, `bookings` are of this.
    """

    worker: Worker
    rank: int
    devices: dict[str, DeviceState]
    open: bool = True
    foreign_bytes: int = 0
    cpu_percent: float = 0.0
    used_bytes: int = 0
    peak_bytes: int = 0
    loading_tasks: int = 0
    bookings: dict[str, Booking] = field(default_factory=dict)
    neighbours: tuple["HostState", ...] = ()
    pool: tuple["HostState", ...] = ()
    twins: dict[str, list[tuple["HostState", DeviceState]]] = field(default_factory=dict)
    avoided_until_ms: dict[Requirements | None, int] = field(default_factory=dict)
    """Until when (ms since 1970) it gets no task with these requirements that takes no device."""
    pool_bytes: int = 0
    """Bytes that tasks of other workers have of the same memory."""
    _open_devices: OpenDevices | None = field(default=None, init=False, repr=False)

    @property
    def free_bytes(self) -> int:
        """Free bytes of the host; meaningless if its memory is not known (0)."""
        return self.worker.memory_bytes - self.foreign_bytes - self.used_bytes - self.pool_bytes

    @property
    def has_tasks(self) -> bool:
        """Whether the host has a task, of this worker or of one that shares its memory."""
        return bool(self.bookings) or any(other.bookings for other in self.pool)

    def serves(self, requirements: Requirements) -> bool:
        """Returns whether this worker accepts such tasks.

        That is by type, queue, credentials, fixed worker and memory limit.
        """
        worker = self.worker
        return (
            (requirements.task_type in worker.task_types or requirements.task_type in worker.built_in)
            and requirements.queue in worker.queues
            and requirements.credentials <= worker.credentials
            and requirements.worker_id in ("", worker.worker_id)
            and not (requirements.exceeded_bytes and self.is_exceeded(requirements))
        )

    def is_exceeded(self, requirements: Requirements) -> bool:
        """Returns whether this worker allows no more memory than the limit that a task was killed at."""
        return 0 < host_limit(self.worker, requirements.task_type) <= requirements.exceeded_bytes

    @property
    def open_devices(self) -> OpenDevices:
        """The devices that may take one more task."""
        if self._open_devices is None:
            self._open_devices = open_devices_of(self.devices.values())
        return self._open_devices

    def set_unhealthy(self, unhealthy: Collection[str], draining: Collection[str]) -> None:
        """Marks the devices that have failed, and those that get no new tasks; all others get tasks."""
        for device_id, device in self.devices.items():
            device.healthy = device_id not in unhealthy
            device.draining = device_id in draining
        self._open_devices = None

    def matching_devices(self, requirements: Requirements) -> Iterator[DeviceState]:
        """Returns the healthy devices of the required kind, or the fixed one."""
        if requirements.device_id:
            device = self.devices.get(requirements.device_id)
            if device is not None and device.healthy and device.spec.kind in requirements.kinds:
                yield device
            return
        kinds = requirements.kinds
        for device in self.devices.values():
            if device.healthy and device.spec.kind in kinds:
                yield device

    def has_room(self, admission: AdmissionLimits) -> bool:
        """Returns whether the worker may get one more task, apart from what that needs."""
        if not self.bookings and not self.has_tasks:
            return self.open
        worker = self.worker
        loading_tasks = self.loading_tasks + sum(other.loading_tasks for other in self.pool)
        return (
            self.open
            and (worker.max_tasks == 0 or len(self.bookings) < worker.max_tasks)
            and (admission.max_cpu_percent == 0 or self.cpu_percent < admission.max_cpu_percent)
            and (admission.max_loading_tasks == 0 or loading_tasks < admission.max_loading_tasks)
        )

    def book(self, booking: Booking) -> None:
        """Adds the booking of a task."""
        self.bookings[booking.task_id] = booking
        for device in self._devices_of(booking):
            device.bookings[booking.task_id] = booking
            device.refresh()
        for host, device in self._twins_of(booking):
            device.bookings[booking.task_id] = booking
            host.refresh_devices((device,))
        self._recount()

    def unbook(self, task_id: str) -> Booking | None:
        """Removes and returns the booking of a task, None if there is none."""
        booking = self.bookings.pop(task_id, None)
        if booking is not None:
            for device in self._devices_of(booking):
                device.bookings.pop(task_id, None)
                device.refresh()
            for host, device in self._twins_of(booking):
                device.bookings.pop(task_id, None)
                host.refresh_devices((device,))
            self._recount()
        return booking

    def owner_of(self, task_id: str) -> "HostState":
        """Returns the worker that has the booking of a task: this one or a neighbour."""
        return next((host for host in self.neighbours if task_id in host.bookings), self)

    def refresh_devices(self, devices: Iterable[DeviceState]) -> None:
        """Computes derived fields again, after bookings of these devices were added, removed or changed."""
        for device in devices:
            device.refresh()
        self._open_devices = None

    def note_recall(self, booking: Booking) -> None:
        """Opens the devices of a task that has just been recalled: another one gets its place."""
        for device in self._devices_of(booking):
            device.update_fullness()
        self._open_devices = None

    def is_waiting(self, booking: Booking) -> bool:
        """Returns whether a task waits for another one that still runs on its device."""
        return booking.behind and any(booking in device.waiting for device in self._devices_of(booking))

    def apply_heartbeat(self, heartbeat: WorkerHeartbeat, strangers: Collection[NeighbourUse] = ()) -> None:
        """Applies what a worker measured: the peaks of its tasks, and what other processes use.

        `strangers` are neighbours that this scheduler doesn't know: no booking counts what they have.
        """
        for running in heartbeat.running:
            booking = self.bookings.get(running.task_id)
            if booking is not None and booking.token == (running.attempt, running.placement):
                booking.memory_bytes = max(booking.memory_bytes, running.peak_memory_bytes)
                booking.cuda_memory_bytes = max(booking.cuda_memory_bytes, running.peak_cuda_memory_bytes)
        for reading in heartbeat.devices:
            device = self.devices.get(reading.device_id)
            if device is not None:
                taken = sum(other.device_bytes.get(reading.device_id, 0) for other in strangers)
                device.foreign_bytes = reading.foreign_bytes + taken
                device.utilisation = reading.utilisation or 0.0
        if heartbeat.available_bytes is not None and self.worker.memory_bytes:
            # A peak is at least what a task uses now, so other processes use no less than this.
            self.peak_bytes = sum(running.peak_memory_bytes for running in heartbeat.running)
            own_bytes = self.peak_bytes + sum(other.peak_bytes for other in self.pool)
            taken = sum(other.memory_bytes for other in strangers)
            missing = self.worker.memory_bytes - heartbeat.available_bytes - own_bytes
            self.foreign_bytes = max(0, missing) + taken
        self.cpu_percent = heartbeat.cpu_percent or 0.0
        for device in self.devices.values():
            device.refresh()
        for twins in self.twins.values():
            for host, device in twins:
                host.refresh_devices((device,))
        self._recount()

    def _devices_of(self, booking: Booking) -> list[DeviceState]:
        return [self.devices[device_id] for device_id in booking.device_ids if device_id in self.devices]

    def _twins_of(self, booking: Booking) -> list[tuple["HostState", DeviceState]]:
        if not self.twins:
            return []
        return [twin for device_id in booking.device_ids for twin in self.twins.get(device_id, ())]

    def _recount(self) -> None:
        self._open_devices = None
        used = loading = 0
        for booking in self.bookings.values():
            used += booking.memory_bytes
            if not booking.training:
                loading += 1
        self.used_bytes, self.loading_tasks = used, loading
        for host in self.pool:
            host.count_pool()

    def count_pool(self) -> None:
        """Counts again what tasks of other workers have of the same memory."""
        self.pool_bytes = sum(other.used_bytes for other in self.pool)


def empty_host(worker: Worker, rank: int, look_ahead: int) -> HostState:
    """Returns the state of a worker without tasks; on a device up to `look_ahead` may wait."""
    most = most_ahead(len(worker.devices), look_ahead)
    devices = {
        device_id: DeviceState(device, (rank << 16) + index, device_id not in worker.unhealthy, most)
        for index, (device_id, device) in enumerate(worker.devices.items())
    }
    return HostState(worker, rank, devices)
