"""What each placement has of this host: host memory, devices and device memory. Pure.

A placement has the larger of its reservation and its highest measured usage. An unknown reading counts as 0.
A CPU slot takes one task; a GPU takes all that fit, unless one requests the whole device. What tasks of other
workers on the host have of a GPU with the same uuid, or of the same memory, counts as that of this worker's.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from trackside.contracts.envelope.memory import shown
from trackside.contracts.fleet.fleet import Device
from trackside.worker.host.neighbours import Neighbour, NeighbourTask
from trackside.worker.placements.fencing import Refusal


class Stage(Enum):
    """The stage of a placement, or of a warm process."""

    HELD = auto()
    """It has nothing yet and waits for its devices."""
    STARTING = auto()
    """It has nothing yet and begins at once."""
    LOADED = auto()
    """It has a process and no device: it loads early, or was interrupted."""
    TRAINING = auto()
    """It has its devices."""
    ENDING = auto()
    """Its end is reported, but its process still exists."""
    IDLE = auto()
    """Not a placement but a warm process, which ends when its memory is needed."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a placement requests: host memory in total, CUDA memory on each of its devices, in bytes.

    A `raised` claim was increased after the task ran out of memory, maybe beyond what the host has.
    """

    device_ids: tuple[str, ...]
    memory_bytes: int = 0
    cuda_memory_bytes: int = 0
    whole_device: bool = False
    raised: bool = False


@dataclass(slots=True)
class Allocation:
    """What a placement has, and its highest measured usage, in bytes."""

    task_id: str
    claim: Claim
    stage: Stage = Stage.HELD
    peak_memory_bytes: int = 0
    peak_cuda_memory_bytes: int = 0

    @property
    def memory_bytes(self) -> int:
        """Bytes of host memory that it counts for."""
        return max(self.claim.memory_bytes, self.peak_memory_bytes)

    @property
    def cuda_memory_bytes(self) -> int:
        """Bytes that it counts for on each of its devices."""
        return max(self.claim.cuda_memory_bytes, self.peak_cuda_memory_bytes)

    def record_usage(self, memory_bytes: int, cuda_memory_bytes: int) -> None:
        """Records a measured usage: bytes of the host and of one device."""
        self.peak_memory_bytes = max(self.peak_memory_bytes, memory_bytes)
        self.peak_cuda_memory_bytes = max(self.peak_cuda_memory_bytes, cuda_memory_bytes)


HAS_PROCESS = frozenset({Stage.LOADED, Stage.TRAINING, Stage.ENDING})
HAS_DEVICES = frozenset({Stage.TRAINING, Stage.ENDING})
AHEAD_ON_DEVICES = frozenset({Stage.HELD, Stage.STARTING, Stage.LOADED, Stage.TRAINING})
"""Stages that a new placement must leave room for; those that end soon are not among them."""
AHEAD_ON_HOST = frozenset({Stage.STARTING, Stage.LOADED, Stage.TRAINING})
IDLE = frozenset({Stage.IDLE})


@dataclass(slots=True)
class Ledger:
    """The allocations of one worker, by any unique key, and those of its neighbours on the host."""

    devices: Mapping[str, Device]
    memory_bytes: int = 0
    """Host memory for tasks; 0 for no limit."""
    max_tasks: int = 0
    """Processes at once; 0 for no limit."""
    reserve_bytes: int = 0
    """Host memory that is reserved for others, and not part of `memory_bytes`."""
    foreign_bytes: int = 0
    """Host memory that others use now."""
    foreign_bytes_by_device: Mapping[str, int] = field(default_factory=dict)
    """Bytes that others use now, by device."""
    memory_pool: str = ""
    """What the host memory is part of: neighbours with the same one share it; empty: it is not shared."""
    neighbours: tuple[Neighbour, ...] = ()
    """What other workers on the host have."""
    used_memory_bytes: int = 0
    """Host memory that this worker's tasks use now."""
    used_bytes_by_device: Mapping[str, int] = field(default_factory=dict)
    """Bytes that this worker's tasks use now, by device."""
    failed: dict[str, str] = field(default_factory=dict)
    """Reasons of failed devices, by device."""
    allocations: dict[str, Allocation] = field(default_factory=dict)
    _by_device: dict[str, dict[str, Allocation]] = field(default_factory=dict)

    def add(self, key: str, allocation: Allocation) -> None:
        """Adds an allocation; its devices must not change later."""
        self.allocations[key] = allocation
        for device_id in allocation.claim.device_ids:
            self._by_device.setdefault(device_id, {})[key] = allocation

    def remove(self, key: str) -> None:
        """Removes an allocation."""
        allocation = self.allocations.pop(key, None)
        for device_id in allocation.claim.device_ids if allocation is not None else ():
            del self._by_device[device_id][key]

    def limit_raised(self, claim: Claim) -> Claim:
        """Lowers a raised claim to what processes of others leave free: then the task runs alone."""
        if not claim.raised:
            return claim
        memory, cuda = claim.memory_bytes, claim.cuda_memory_bytes
        if self.memory_bytes:
            memory = max(0, min(memory, self._task_memory_bytes()))
        for device_id in claim.device_ids:
            if device_id in self.devices and self._is_gpu(device_id):
                left = self.devices[device_id].memory_bytes - self.foreign_bytes_by_device.get(device_id, 0)
                cuda = max(0, min(cuda, left))
        return replace(claim, memory_bytes=memory, cuda_memory_bytes=cuda)

    def check_capacity(self, claim: Claim) -> Refusal | None:
        """Returns why a claim can't be met even on an empty host; None if it can."""
        claim = self.limit_raised(claim)
        if len(set(claim.device_ids)) < len(claim.device_ids):
            return Refusal("unknown_device", "a task needs each of its devices once")
        for device_id in claim.device_ids:
            if device_id not in self.devices:
                known = ", ".join(sorted(self.devices))
                return Refusal("unknown_device", f"no device {device_id!r} here; there are: {known}")
            if device_id in self.failed:
                return Refusal("unknown_device", f"{device_id} has failed: {self.failed[device_id]}")
            total = self.devices[device_id].memory_bytes
            if self._is_gpu(device_id) and claim.cuda_memory_bytes > total:
                return _shortage(device_id, claim.cuda_memory_bytes, total)
        return _shortage("the host", claim.memory_bytes, self.memory_bytes) if self.memory_bytes else None

    def check_devices(
        self, claim: Claim, stages: Collection[Stage], excluded: Collection[str] = ()
    ) -> Refusal | None:
        """Returns why a claim doesn't fit on its devices next to those in these stages; None if it does.

        Whatever neighbours have counts in any case.
        """
        for device_id in claim.device_ids:
            present = self._by_device.get(device_id, {})
            others = [each for key, each in present.items() if key not in excluded and each.stage in stages]
            refusal = self._check_device(device_id, claim, others)
            if refusal is not None:
                return refusal
        return None

    def _check_device(self, device_id: str, claim: Claim, others: list[Allocation]) -> Refusal | None:
        exclusive = claim.whole_device or not self._is_gpu(device_id)
        blocking = [each for each in others if exclusive or each.claim.whole_device]
        if blocking:
            return Refusal("device_busy", f"{device_id} runs task {blocking[0].task_id}")
        if not self._is_gpu(device_id):
            return None
        elsewhere = self._on_neighbours(self.devices[device_id].uuid)
        for neighbour, task in elsewhere:
            if exclusive or task.whole_device:
                return Refusal("device_busy", f"{device_id} runs {_named(neighbour, task)}")
        taken = sum(each.cuda_memory_bytes for each in others) + self.foreign_bytes_by_device.get(
            device_id, 0
        )
        taken += sum(task.cuda_memory_bytes for _, task in elsewhere)
        left = self.devices[device_id].memory_bytes - taken
        also = [_named(*each, task_bytes=each[1].cuda_memory_bytes) for each in elsewhere]
        return _shortage(device_id, claim.cuda_memory_bytes, left, also)

    def _on_neighbours(self, uuid: str) -> list[tuple[Neighbour, NeighbourTask]]:
        """Returns the tasks of neighbours that have a GPU."""
        if not uuid:
            return []
        return [(each, task) for each in self.neighbours for task in each.present() if uuid in task.uuids]

    def check_host(
        self, claim: Claim, stages: Collection[Stage], excluded: Collection[str] = ()
    ) -> Refusal | None:
        """Returns why a claim doesn't fit on the host next to those in these stages; None if it does."""
        others = [
            each for key, each in self.allocations.items() if key not in excluded and each.stage in stages
        ]
        if self.max_tasks and len(others) >= self.max_tasks:
            return Refusal("too_many_tasks", f"{len(others)} tasks run here, and no more may")
        return self.check_memory(claim, stages, excluded)

    def check_memory(
        self, claim: Claim, stages: Collection[Stage], excluded: Collection[str] = ()
    ) -> Refusal | None:
        """Returns why the host has too little memory for a claim; None if it has enough."""
        if not self.memory_bytes:
            return None
        others = [
            each for key, each in self.allocations.items() if key not in excluded and each.stage in stages
        ]
        left = self._task_memory_bytes() - sum(each.memory_bytes for each in others)
        elsewhere = [(each.worker_id, self.pool_bytes_of(each)) for each in self.neighbours]
        also = [f"worker {name} has {shown(size)} of it" for name, size in elsewhere if size]
        return _shortage("the host", claim.memory_bytes, left - sum(size for _, size in elsewhere), also)

    def pool_bytes_of(self, neighbour: Neighbour) -> int:
        """Returns the bytes that tasks of a neighbour have of the same host memory."""
        return sum(task.memory_bytes for task in neighbour.present()) if self.shares_memory(neighbour) else 0

    def shares_memory(self, neighbour: Neighbour) -> bool:
        """Returns whether a neighbour has the same host memory."""
        return bool(self.memory_pool) and neighbour.memory_pool == self.memory_pool

    def _task_memory_bytes(self) -> int:
        """Returns the bytes of the host for tasks: less where others use more than is reserved for them."""
        return self.memory_bytes - max(0, self.foreign_bytes - self.reserve_bytes)

    def _is_gpu(self, device_id: str) -> bool:
        return self.devices[device_id].kind == "gpu"


def _shortage(where: str, wanted: int, left: int, also: Collection[str] = ()) -> Refusal | None:
    """Returns a refusal if there is not enough; 0 bytes, an unknown need, always fit."""
    if wanted == 0 or wanted <= left:
        return None
    sentence = f"needs {shown(wanted)} of {where}, which has {shown(max(0, left))} left"
    return Refusal("out_of_memory", f"{sentence}: {', '.join(also)}" if also else sentence)


def _named(neighbour: Neighbour, task: NeighbourTask, task_bytes: int | None = None) -> str:
    """Returns a task of a neighbour as refusals name it."""
    what = f"task {task.task_id}" if task.task_id else "a process that waits for a task"
    size = "" if task_bytes is None else f" has {shown(task_bytes)}"
    return f"{what} of worker {neighbour.worker_id}, on the same host,{size}".rstrip(",")
