"""What is taken of each host and device: reserved or seen to be used, whichever is more. Pure."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from trackside.contracts.fleet import Device, WorkerHeartbeat
from trackside.contracts.memory import MAX_BYTES
from trackside.contracts.tasks import TaskStatus
from trackside.domain.fleet import Worker
from trackside.domain.task import Task, TaskState
from trackside.scheduler.requirements import Requirements, level_of, waiting_since_ms

ABOVE_ALL = 10
"""A number above any priority."""


@dataclass(frozen=True, slots=True)
class Gates:
    """What is kept free beside tasks, and how busy a worker may be; 0 means no limit.

    A host or a device with no task on it keeps nothing free: something must be able to run.
    """

    host_share: float = 0.0
    host_bytes: int = 0
    device_share: float = 0.0
    device_bytes: int = 0
    max_cpu_percent: float = 0.0
    max_loading: int = 0


@dataclass(slots=True, eq=False)
class Booking:
    """A task's place as it counts: memory on the host, and `cuda` on each of its devices, bytes.

    `behind`: it waits for others on its device, unless it fits beside them. `nominated`: nothing is there
    yet, but the place is kept. `level` is its priority as it counted when it was placed.
    """

    task_id: str
    device_ids: tuple[str, ...]
    memory: int
    cuda: int
    whole: bool = False
    behind: bool = False
    nominated: bool = False
    token: tuple[int, int] = (0, 0)
    accepted: bool = False
    training: bool = False
    stopping: bool = False
    recalled: bool = False
    level: int = 0
    priority: int = 0
    assigned_ms: int = 0

    @property
    def place(self) -> tuple[object, ...]:
        """What decides how much it takes away from others."""
        return (self.device_ids, self.memory, self.cuda, self.whole, self.behind and not self.training)


def booking_of(task: Task, ageing_ms: int) -> Booking:
    """Gives the booking of a task that has a place."""
    attempt = task.attempt
    waited_ms = attempt.assigned_ms - waiting_since_ms(task)
    return Booking(
        task_id=task.task_id,
        device_ids=tuple(attempt.device_ids),
        memory=attempt.reserved.memory_bytes,
        cuda=attempt.reserved.cuda_memory_bytes,
        whole=task.needs.resources.whole_device,
        behind=attempt.behind,
        token=(attempt.number, attempt.placement),
        accepted=task.state is TaskState.ACTIVE,
        training=attempt.status >= TaskStatus.TRAINING,
        stopping=bool(task.stop_reason) or attempt.stopping is not None,
        recalled=attempt.recalled,
        level=level_of(task.needs.priority, waited_ms, ageing_ms),
        priority=task.needs.priority,
        assigned_ms=attempt.assigned_ms,
    )


def kept_up(known: Booking, task: Task, ageing_ms: int) -> bool:
    """Brings a booking up to date where a task takes what it took before; says whether it does."""
    attempt = task.attempt
    token = (attempt.number, attempt.placement)
    stopping = bool(task.stop_reason) or attempt.stopping is not None
    if (
        known.token not in ((0, 0), token)
        or known.behind != attempt.behind
        or known.training != (attempt.status >= TaskStatus.TRAINING)
        or (stopping and not known.stopping)
        or known.memory < attempt.reserved.memory_bytes
        or known.cuda < attempt.reserved.cuda_memory_bytes
        or known.device_ids != tuple(attempt.device_ids)
    ):
        return False
    known.token, known.stopping, known.recalled = token, stopping, attempt.recalled
    known.accepted = task.state is TaskState.ACTIVE
    known.priority, known.assigned_ms = task.needs.priority, attempt.assigned_ms
    known.level = level_of(known.priority, attempt.assigned_ms - waiting_since_ms(task), ageing_ms)
    return True


@dataclass(slots=True, eq=False)
class Slot:
    """A device and who has it; `waiting` is the task behind the others."""

    device: Device
    rank: int
    healthy: bool = True
    foreign: int = 0
    utilisation: float = 0.0
    bookings: dict[str, Booking] = field(default_factory=dict)
    waiting: Booking | None = None
    avoided: dict[Requirements | None, int] = field(default_factory=dict)
    """Until when, ms since 1970, it gets no task that asks for that; None stands for every task."""

    is_gpu: bool = False
    """Whether several tasks may share it."""
    is_whole: bool = False
    """Whether one of its tasks shares it with nobody."""
    free: int = 0
    """Bytes that nobody has."""
    room: int = 0
    """Bytes for one more task: MAX_BYTES if all is free or nothing is known, -1 if a task has it whole."""

    def __post_init__(self) -> None:
        """Counts for the first time."""
        self.is_gpu = self.device.kind == "gpu"
        self.refresh()

    def refresh(self) -> None:
        """Counts anew after a booking came, went or changed."""
        if not self.bookings:
            self.is_whole, self.waiting = False, None
            self.free, self.room = self.device.memory_bytes - self.foreign, MAX_BYTES
            return
        nominated: list[Booking] = []
        late: list[Booking] = []
        real: list[Booking] = []
        self.is_whole = False
        for booking in self.bookings.values():
            self.is_whole = self.is_whole or booking.whole
            is_late = booking.behind and not booking.training
            (nominated if booking.nominated else late if is_late else real).append(booking)
        self.waiting = None
        free = self.device.memory_bytes - self.foreign - sum([booking.cuda for booking in real])
        if len(late) > 1:
            late.sort(key=lambda booking: booking.assigned_ms)
        for booking in late:
            if not real or (booking.cuda <= free and not self._shuts_out(booking, real)):
                free -= booking.cuda
                real.append(booking)
            else:
                self.waiting = booking
        self.free = free - sum([booking.cuda for booking in nominated])
        total = self.device.memory_bytes
        all_free = total == 0 or self.free >= total
        self.room = -1 if self.is_whole else MAX_BYTES if all_free else self.free

    def _shuts_out(self, booking: Booking, others: list[Booking]) -> bool:
        return not self.is_gpu or booking.whole or any(other.whole for other in others)


@dataclass(frozen=True, slots=True)
class Openings:
    """The devices of a host that may take one more task: found once after each change, read by all classes.

    `idle` (CPU slots) and `gpus` may take it at once; `taken` have somebody, and nobody behind.
    `room` is the most that a GPU has, `lowest` the lowest priority of those who wait behind others,
    `taken_kinds` the kinds of `taken`.
    """

    idle: tuple[Slot, ...]
    gpus: tuple[Slot, ...]
    taken: tuple[Slot, ...]
    room: int
    lowest: int
    taken_kinds: frozenset[str]

    def may_suit(self, requirements: Requirements, least: int, look_ahead: int) -> bool:
        """Says whether a task that needs at least so much of a GPU could find a place, free or behind."""
        if requirements.preempts >= 0 or (requirements.kind != "gpu" and self.idle):
            return True
        if requirements.kind != "cpu" and self.room >= least:
            return True
        return (
            requirements.may_wait and look_ahead > 0 and not self.taken_kinds.isdisjoint(requirements.kinds)
        )

    def free(self, requirements: Requirements, least: int) -> list[Slot]:
        """Gives the devices that may have room for a task that needs at least so much of a GPU."""
        found: list[Slot] = []
        if requirements.kind != "cpu" and self.room >= least:
            found += [slot for slot in self.gpus if slot.room >= least]
        if requirements.kind != "gpu":
            found += self.idle
        return _only(requirements.device_id, found)

    def behind(self, requirements: Requirements) -> list[Slot]:
        """Gives the devices where a task may wait behind those who are there."""
        kinds = requirements.kinds
        return _only(requirements.device_id, [slot for slot in self.taken if slot.device.kind in kinds])


def _only(device_id: str, slots: list[Slot]) -> list[Slot]:
    return [slot for slot in slots if slot.device.device_id == device_id] if device_id else slots


def openings_of(slots: Iterable[Slot]) -> Openings:
    """Finds what devices have to give."""
    working = [slot for slot in slots if slot.healthy]
    gpus = tuple([slot for slot in working if slot.is_gpu and slot.room >= 0])
    taken = tuple([slot for slot in working if slot.bookings and slot.waiting is None])
    return Openings(
        idle=tuple([slot for slot in working if not slot.is_gpu and not slot.bookings]),
        gpus=gpus,
        taken=taken,
        room=max([slot.room for slot in gpus], default=-1),
        lowest=min(
            [slot.waiting.priority for slot in working if slot.waiting is not None], default=ABOVE_ALL
        ),
        taken_kinds=frozenset([slot.device.kind for slot in taken]),
    )


@dataclass(slots=True, eq=False)
class Host:
    """A worker with its devices, in the order of its join, and all tasks that it has."""

    worker: Worker
    rank: int
    slots: dict[str, Slot]
    open: bool = True
    foreign: int = 0
    cpu_percent: float = 0.0
    used: int = 0
    loading: int = 0
    bookings: dict[str, Booking] = field(default_factory=dict)
    _openings: Openings | None = field(default=None, init=False, repr=False)

    @property
    def free(self) -> int:
        """Bytes of the host that nobody has; only meant where its memory is known."""
        return self.worker.memory_bytes - self.foreign - self.used

    def serves(self, requirements: Requirements) -> bool:
        """Says whether this worker takes such tasks at all."""
        worker = self.worker
        return (
            requirements.task_type in worker.task_types
            and requirements.queue in worker.queues
            and requirements.worker_id in ("", worker.worker_id)
        )

    @property
    def openings(self) -> Openings:
        """Says which of its devices may take one more task."""
        if self._openings is None:
            self._openings = openings_of(self.slots.values())
        return self._openings

    def mark(self, unhealthy: Collection[str]) -> None:
        """Takes in which devices don't work."""
        for device_id, slot in self.slots.items():
            slot.healthy = device_id not in unhealthy
        self._openings = None

    def matching_devices(self, requirements: Requirements) -> Iterator[Slot]:
        """Gives the devices of the right kind that work."""
        if requirements.device_id:
            slot = self.slots.get(requirements.device_id)
            if slot is not None and slot.healthy and slot.device.kind in requirements.kinds:
                yield slot
            return
        kinds = requirements.kinds
        for slot in self.slots.values():
            if slot.healthy and slot.device.kind in kinds:
                yield slot

    def has_room(self, gates: Gates) -> bool:
        """Says whether the worker takes one more task, whatever it is."""
        if not self.bookings:
            return self.open
        worker = self.worker
        return (
            self.open
            and (worker.max_tasks == 0 or len(self.bookings) < worker.max_tasks)
            and (gates.max_cpu_percent == 0 or self.cpu_percent < gates.max_cpu_percent)
            and (gates.max_loading == 0 or self.loading < gates.max_loading)
        )

    def book(self, booking: Booking) -> None:
        """Counts a task in."""
        self.bookings[booking.task_id] = booking
        for slot in self._slots_of(booking):
            slot.bookings[booking.task_id] = booking
            slot.refresh()
        self._count()

    def unbook(self, task_id: str) -> Booking | None:
        """Counts a task out; gives its booking, None if there was none."""
        booking = self.bookings.pop(task_id, None)
        if booking is not None:
            for slot in self._slots_of(booking):
                slot.bookings.pop(task_id, None)
                slot.refresh()
            self._count()
        return booking

    def recount(self, booking: Booking) -> None:
        """Counts anew what a booking takes, after it has changed."""
        for slot in self._slots_of(booking):
            slot.refresh()
        self._count()

    def is_waiting(self, booking: Booking) -> bool:
        """Says whether a task is behind another one that still has its device."""
        return booking.behind and any(slot.waiting is booking for slot in self._slots_of(booking))

    def read(self, beat: WorkerHeartbeat) -> None:
        """Takes in what the worker sees: peaks of its tasks, and what others use."""
        for running in beat.running:
            booking = self.bookings.get(running.task_id)
            if booking is not None and booking.token == (running.attempt, running.placement):
                booking.memory = max(booking.memory, running.peak_memory_bytes)
                booking.cuda = max(booking.cuda, running.peak_cuda_memory_bytes)
        for reading in beat.devices:
            slot = self.slots.get(reading.device_id)
            if slot is not None:
                slot.foreign = reading.foreign_bytes
                slot.utilisation = reading.utilisation or 0.0
        if beat.available_bytes is not None and self.worker.memory_bytes:
            # A peak is at least what a task uses now: what others use may be more than this, never less.
            ours = sum(running.peak_memory_bytes for running in beat.running)
            self.foreign = max(0, self.worker.memory_bytes - beat.available_bytes - ours)
        self.cpu_percent = beat.cpu_percent or 0.0
        for slot in self.slots.values():
            slot.refresh()
        self._count()

    def _slots_of(self, booking: Booking) -> list[Slot]:
        return [self.slots[device_id] for device_id in booking.device_ids if device_id in self.slots]

    def _count(self) -> None:
        self._openings = None
        used = loading = 0
        for booking in self.bookings.values():
            used += booking.memory
            if not booking.training:
                loading += 1
        self.used, self.loading = used, loading


def host_of(worker: Worker, rank: int) -> Host:
    """Gives a worker's host with nothing on it; `rank` orders workers."""
    slots = {
        device_id: Slot(device, (rank << 16) + at, device_id not in worker.unhealthy)
        for at, (device_id, device) in enumerate(worker.devices.items())
    }
    return Host(worker, rank, slots)
