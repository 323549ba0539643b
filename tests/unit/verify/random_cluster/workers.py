"""What the workers of a cluster have: their devices, and who has them and their memory now."""

from dataclasses import dataclass, field

from trackside.contracts.fleet import Device
from trackside.contracts.message import Message
from trackside.contracts.tasks import (
    AttemptAdopted,
    Reservation,
    TaskAccepted,
    TaskInterrupted,
    TaskStatus,
    TaskStatusChanged,
)
from trackside.domain.task import Task, TaskState

GIB = 2**30
DEVICES: dict[str, list[Device]] = {
    "w1": [Device(device_id=f"cpu-{at}", kind="cpu", name="slot", memory_bytes=4 * GIB) for at in range(2)],
    "w2": [Device(device_id="gpu-0", kind="gpu", name="GPU", memory_bytes=8 * GIB)],
    "w3": [Device(device_id=f"gpu-{at}", kind="gpu", name="GPU", memory_bytes=8 * GIB) for at in range(2)],
}
MEMORY_BYTES = 12 * GIB


def amount(gib: int, cuda_gib: int) -> Reservation:
    """Returns a reservation."""
    return Reservation(memory_bytes=gib * GIB, cuda_memory_bytes=cuda_gib * GIB, estimated_by="task")


@dataclass(slots=True)
class Usage:
    """What a placement has of its host and its devices."""

    worker: tuple[str, str]
    device_ids: list[str]
    whole: bool
    memory: int = 0
    cuda: int = 0
    on_device: bool = False


@dataclass(slots=True)
class Worker:
    """An incarnation that is there, or that lives on although it was lost."""

    worker_id: str
    incarnation: str
    lost: bool = False

    @property
    def devices(self) -> list[Device]:
        """Its devices."""
        return DEVICES[self.worker_id]


@dataclass(slots=True)
class Workers:
    """Who has what, by (stream, task)."""

    held: dict[tuple[str, str], Usage] = field(default_factory=dict)

    def note(self, stream: str, task: Task, message: Message) -> None:
        """Takes in what an event that counts has changed about a task."""
        key = (stream, task.task_id)
        place = task.place
        if place is None or task.state is not TaskState.ACTIVE:
            self.held.pop(key, None)
            return
        if key not in self.held:
            whole = task.needs.resources.whole_device
            self.held[key] = Usage((place.worker_id, place.incarnation), place.device_ids, whole)
        held, reserved = self.held[key], task.attempt.reserved
        held.worker = (place.worker_id, place.incarnation)
        if isinstance(message, TaskAccepted) or (isinstance(message, AttemptAdopted) and not held.memory):
            held.memory, held.cuda = reserved.memory_bytes, reserved.cuda_memory_bytes
            held.on_device = not task.attempt.behind
        elif isinstance(message, TaskInterrupted):
            held.on_device = False
        elif isinstance(message, TaskStatusChanged) and message.status is TaskStatus.TRAINING:
            held.on_device = True
            held.memory, held.cuda = reserved.memory_bytes, reserved.cuda_memory_bytes

    def has_room(self, stream: str, task: Task, with_device: bool) -> bool:
        """Returns whether a worker has what a placement wants now: by what others on it have."""
        place = task.place
        assert place is not None
        reserved = task.attempt.reserved
        others = [
            held
            for key, held in self.held.items()
            if key != (stream, task.task_id) and held.worker == (place.worker_id, place.incarnation)
        ]
        if sum(held.memory for held in others) + reserved.memory_bytes > MEMORY_BYTES:
            return False
        whole = task.needs.resources.whole_device
        return not with_device or all(
            fits(place.worker_id, device_id, whole, reserved.cuda_memory_bytes, others)
            for device_id in place.device_ids
        )


def fits(worker_id: str, device_id: str, whole: bool, cuda: int, others: list[Usage]) -> bool:
    """Returns whether a device takes one more task beside those that have it."""
    device = next(device for device in DEVICES[worker_id] if device.device_id == device_id)
    there = [held for held in others if held.on_device and device_id in held.device_ids]
    if device.kind == "cpu" or whole or any(held.whole for held in there):
        return not there
    return sum(held.cuda for held in there) + cuda <= device.memory_bytes
