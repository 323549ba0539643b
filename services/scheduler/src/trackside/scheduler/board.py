"""Which tasks wait and which device each placed task has: an index over the folded streams, pure."""

import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field

from trackside.domain.task import Task, TaskState

QueueKey = tuple[tuple[int, int, int], str]
DeviceKey = tuple[str, str]


@dataclass(slots=True)
class Board:
    """Queue in order of submission; placed tasks by id. `stream_of` gives the stream of either."""

    queue: list[QueueKey] = field(default_factory=list)
    queued: dict[str, QueueKey] = field(default_factory=dict)
    placed: dict[str, Task] = field(default_factory=dict)
    stream_of: dict[str, str] = field(default_factory=dict)
    tasks: dict[str, Task] = field(default_factory=dict)

    def update(self, stream_id: str, task: Task) -> None:
        """Takes in what a task has become."""
        task_id = task.task_id
        key = self.queued.pop(task_id, None)
        if key is not None:
            del self.queue[bisect.bisect_left(self.queue, key)]
        self.placed.pop(task_id, None)
        if task.state is TaskState.ENDED:
            self.stream_of.pop(task_id, None)
            self.tasks.pop(task_id, None)
            return
        self.stream_of[task_id] = stream_id
        self.tasks[task_id] = task
        if task.state is TaskState.QUEUED:
            key = (task.queued_at, task_id)
            bisect.insort(self.queue, key)
            self.queued[task_id] = key
        else:
            self.placed[task_id] = task

    def waiting(self) -> Iterator[Task]:
        """Gives the queued tasks, first come first; one by one, as often only few are looked at."""
        return (self.tasks[task_id] for _, task_id in self.queue)

    def taken(self) -> set[DeviceKey]:
        """Gives the devices that have a task."""
        return {
            (task.place.worker_id, device_id)
            for task in self.placed.values()
            if task.place is not None
            for device_id in task.place.device_ids
        }
