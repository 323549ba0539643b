"""The order in which waiting tasks are served, kept up to date instead of sorted each time. Pure.

Tasks with the same requirements are one scheduling class. Within a class, the tasks of one stream and one
priority are a fair-share group, served in order of submission. Groups are served by effective priority
(priority, plus one for each `ageing_ms` of waiting), then by the fewest running tasks of the stream in this
queue, then by the earliest submission.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from trackside.domain.task import Task
from trackside.scheduler.estimates import Want
from trackside.scheduler.requirements import Requirements, level_of, requirements_of, waiting_since_ms

SubmissionOrder = tuple[int, int, int]
GroupOrder = tuple[int, int, SubmissionOrder]
QueuePosition = tuple[int, SubmissionOrder]
KEPT_CLASSES = 256


def position_of(key: GroupOrder) -> QueuePosition:
    """Gives whose turn it is but for the shares of streams, which change all the time."""
    return (key[0], key[2])


@dataclass(slots=True, eq=False)
class FairShareGroup:
    """Tasks of one stream and one priority that ask for the same; `key` is the order among groups."""

    scheduling_class: "SchedulingClass"
    stream: str
    priority: int
    entries: list[tuple[SubmissionOrder, int, str]] = field(default_factory=list)
    members: dict[str, SubmissionOrder] = field(default_factory=dict)
    key: GroupOrder | None = None

    def head(self) -> tuple[SubmissionOrder, int, str] | None:
        """Gives who is next: when queued, waiting since when (ms), id."""
        entries = self.entries
        while entries and self.members.get(entries[0][2]) != entries[0][0]:
            heapq.heappop(entries)
        return entries[0] if entries else None


@dataclass(slots=True, eq=False)
class SchedulingClass:
    """All tasks that ask for the same. `fresh`: every host must be looked at, else only those in `pending`.

    `moved` are groups whose place in the order may be another one: it is found when the order is asked for.
    `never` says why no worker could ever run them; `overtaken_ms` since when others have gone before its
    first, `held` which worker's devices are kept for it.
    """

    requirements: Requirements
    groups: dict[tuple[str, int], FairShareGroup] = field(default_factory=dict)
    moved: dict[int, FairShareGroup] = field(default_factory=dict)
    heap: list[tuple[GroupOrder, int, FairShareGroup]] = field(default_factory=list)
    size: int = 0
    fresh: bool = True
    pending: dict[str, None] = field(default_factory=dict)
    want: Want | None = None
    judged: bool = False
    never: str = ""
    unsaid: bool = True
    overtaken_ms: int = 0
    held: str = ""

    @property
    def is_open(self) -> bool:
        """Says whether one of its tasks may find a place now."""
        return self.size > 0 and not self.never and bool(self.fresh or self.pending or self.held)

    def tasks(self) -> Iterator[tuple[str, str]]:
        """Gives all its tasks as (stream, id), in no order."""
        for (stream, _), group in self.groups.items():
            for task_id in group.members:
                yield stream, task_id


class TaskQueue:
    """All scheduling classes, and how many tasks of each stream run for each queue."""

    def __init__(self, ageing_ms: int) -> None:
        self.classes: dict[Requirements, SchedulingClass] = {}
        self._where: dict[str, FairShareGroup] = {}
        self._by_share: dict[tuple[str, str], dict[int, FairShareGroup]] = {}
        self._ageing_ms = ageing_ms
        self._sequence = 0
        self.share: Callable[[str, str], int] = lambda queue, stream: 0
        self.now_ms = 0

    def __contains__(self, task_id: str) -> bool:
        return task_id in self._where

    def __len__(self) -> int:
        return len(self._where)

    def add(self, task: Task, stream: str) -> None:
        """Puts a task where it belongs; one that stands there already stays."""
        requirements = requirements_of(task)
        known = self._where.get(task.task_id)
        if known is not None:
            same = (
                known.scheduling_class.requirements == requirements
                and known.members[task.task_id] == task.queued_at
            )
            if same and known.stream == stream and known.priority == task.needs.priority:
                return
            self.remove(task.task_id)
        scheduling_class = self.classes.get(requirements)
        if scheduling_class is None:
            scheduling_class = self.classes[requirements] = SchedulingClass(requirements)
        group = scheduling_class.groups.get((stream, task.needs.priority))
        if group is None:
            group = scheduling_class.groups[stream, task.needs.priority] = FairShareGroup(
                scheduling_class, stream, task.needs.priority
            )
            self._by_share.setdefault((requirements.queue, stream), {})[id(group)] = group
        entry = (task.queued_at, waiting_since_ms(task), task.task_id)
        group.members[task.task_id] = task.queued_at
        heapq.heappush(group.entries, entry)
        self._where[task.task_id] = group
        scheduling_class.size += 1
        scheduling_class.unsaid = True
        if group.entries[0] is entry or group.key is None:
            _moved(group)

    def remove(self, task_id: str) -> None:
        """Takes a task out, if it is there."""
        group = self._where.pop(task_id, None)
        if group is None:
            return
        scheduling_class = group.scheduling_class
        was_head = bool(group.entries) and group.entries[0][2] == task_id
        del group.members[task_id]
        scheduling_class.size -= 1
        if group.members:
            if was_head:
                _moved(group)
            return
        group.key = None
        del scheduling_class.groups[group.stream, group.priority]
        sharing = self._by_share[scheduling_class.requirements.queue, group.stream]
        del sharing[id(group)]
        if not sharing:
            del self._by_share[scheduling_class.requirements.queue, group.stream]
        if scheduling_class.size == 0:
            scheduling_class.overtaken_ms, scheduling_class.held = 0, ""
            self._forget_empty()

    def _forget_empty(self) -> None:
        """Forgets empty classes once they are many; until then they know where nothing fits."""
        if len(self.classes) > KEPT_CLASSES + 2 * len(self._where):
            self.classes = {
                requirements: scheduling_class
                for requirements, scheduling_class in self.classes.items()
                if scheduling_class.size
            }

    def shared(self, queue: str, stream: str) -> None:
        """Orders anew after another number of a stream's tasks run."""
        for group in self._by_share.get((queue, stream), {}).values():
            _moved(group)

    def review(self, now_ms: int) -> None:
        """Orders all groups anew: levels rise with time."""
        self.now_ms = now_ms
        for scheduling_class in self.classes.values():
            for group in scheduling_class.groups.values():
                _moved(group)

    def best(
        self, scheduling_class: SchedulingClass, aside: list[FairShareGroup], is_busy: Callable[[str], bool]
    ) -> FairShareGroup | None:
        """Gives the group of a class that is served next; those that are busy are put aside."""
        for moved in scheduling_class.moved.values():
            self._rekey(moved)
        scheduling_class.moved.clear()
        heap = scheduling_class.heap
        while heap:
            key, _, group = heap[0]
            if group.key is not key:
                heapq.heappop(heap)
            elif is_busy(group.stream):
                heapq.heappop(heap)
                group.key = None
                aside.append(group)
            else:
                return group
        return None

    def back(self, aside: Iterable[FairShareGroup]) -> None:
        """Puts groups back that were put aside."""
        for group in aside:
            _moved(group)

    def _rekey(self, group: FairShareGroup) -> None:
        head = group.head()
        if head is None:
            group.key = None
            return
        level = level_of(group.priority, self.now_ms - head[1], self._ageing_ms)
        scheduling_class = group.scheduling_class
        key = (-level, self.share(scheduling_class.requirements.queue, group.stream), head[0])
        if key == group.key:
            return
        group.key = key
        self._sequence += 1
        heapq.heappush(scheduling_class.heap, (key, self._sequence, group))
        if len(scheduling_class.heap) > 4 * len(scheduling_class.groups) + 64:
            scheduling_class.heap = [entry for entry in scheduling_class.heap if entry[2].key is entry[0]]
            heapq.heapify(scheduling_class.heap)


def _moved(group: FairShareGroup) -> None:
    group.scheduling_class.moved[id(group)] = group
