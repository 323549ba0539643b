"""What a placed task occupies of its host and devices. Pure."""

from dataclasses import dataclass

from trackside.contracts.tasks.tasks import TaskStatus
from trackside.domain.tasks.task import Task, TaskState
from trackside.scheduler.hosts.requirements import effective_priority, waiting_since_ms


@dataclass(slots=True, eq=False)
class Booking:
    """What a task occupies: memory of the host, and CUDA memory of each of its devices, bytes.

    `behind`: it was placed after the tasks that run on its device, and waits unless it fits next to them.
    `nominated`: no task is placed here yet, but the place is reserved. `token`: attempt and placement,
    (0, 0) until the assignment is folded. `endless`: a service, which does not end by itself. `gives_way`: a
    task of higher priority may preempt it. `effective_priority` is that of the moment it was placed.
    `expected_ms` is how long such tasks have their device; None if that isn't known.
    """

    task_id: str
    device_ids: tuple[str, ...]
    memory_bytes: int
    cuda_memory_bytes: int
    whole_device: bool = False
    behind: bool = False
    nominated: bool = False
    token: tuple[int, int] = (0, 0)
    accepted: bool = False
    training: bool = False
    stopping: bool = False
    recalled: bool = False
    effective_priority: int = 0
    priority: int = 0
    assigned_ms: int = 0
    endless: bool = False
    gives_way: bool = True
    expected_ms: int | None = None


def booking_of(task: Task, ageing_ms: int) -> Booking:
    """Returns the booking of a placed task."""
    attempt = task.attempt
    waited_ms = attempt.assigned_ms - waiting_since_ms(task)
    return Booking(
        task_id=task.task_id,
        device_ids=tuple(attempt.device_ids),
        memory_bytes=attempt.reserved.memory_bytes,
        cuda_memory_bytes=attempt.reserved.cuda_memory_bytes,
        whole_device=task.needs.resources.whole_device,
        behind=attempt.behind,
        token=(attempt.number, attempt.placement),
        accepted=task.state is TaskState.ACTIVE,
        training=attempt.status >= TaskStatus.TRAINING,
        stopping=bool(task.stop_reason) or attempt.stopping is not None,
        recalled=attempt.recalled,
        effective_priority=effective_priority(task.needs.priority, waited_ms, ageing_ms),
        priority=task.needs.priority,
        assigned_ms=attempt.assigned_ms,
        endless=task.needs.service is not None,
        gives_way=task.needs.gives_way,
    )


def refresh_booking(known: Booking, task: Task, ageing_ms: int) -> bool:
    """Updates a booking in place if the task still occupies the same; returns whether it does."""
    attempt = task.attempt
    token = (attempt.number, attempt.placement)
    stopping = bool(task.stop_reason) or attempt.stopping is not None
    if (
        known.token not in ((0, 0), token)
        or known.behind != attempt.behind
        or known.training != (attempt.status >= TaskStatus.TRAINING)
        or (stopping and not known.stopping)
        or known.memory_bytes < attempt.reserved.memory_bytes
        or known.cuda_memory_bytes < attempt.reserved.cuda_memory_bytes
        or known.device_ids != tuple(attempt.device_ids)
    ):
        return False
    known.token, known.stopping, known.recalled = token, stopping, attempt.recalled
    known.accepted = task.state is TaskState.ACTIVE
    known.priority, known.assigned_ms = task.needs.priority, attempt.assigned_ms
    known.effective_priority = effective_priority(
        known.priority, attempt.assigned_ms - waiting_since_ms(task), ageing_ms
    )
    return True
