"""Which waiting task goes to which free device: first come, first served. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trackside.domain.fleet import Worker
from trackside.domain.task import Task


@dataclass(frozen=True, slots=True)
class Placement:
    """A task and the device it shall have."""

    task: Task
    worker_id: str
    incarnation: str
    device_id: str


def place(
    waiting: Iterable[Task], workers: Mapping[str, Worker], taken: set[tuple[str, str]]
) -> list[Placement]:
    """Gives each waiting task, in order, the first free device of a worker that knows its type and queue.

    `taken` holds (worker, device) pairs that have a task, or that shall be left alone.
    """
    free = [
        (worker, device_id)
        for worker in workers.values()
        if not worker.gone
        for device_id in worker.devices
        if (worker.worker_id, device_id) not in taken
    ]
    placements = []
    for task in waiting:
        if not free:
            break
        for at, (worker, device_id) in enumerate(free):
            if task.task_type in worker.task_types and task.needs.queue in worker.queues:
                placements.append(Placement(task, worker.worker_id, worker.incarnation, device_id))
                del free[at]
                break
    return placements
