"""The order in which waiting tasks are served, kept up to date instead of sorted each time. Pure.

Tasks with the same requirements are one scheduling class. Within a class, the tasks of one stream and one
priority are a fair-share group, served in order of submission. Groups are served by effective priority
(priority, plus one for each `ageing_ms` of waiting), then by the fewest running tasks of the stream in this
queue, then by the earliest submission.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from trackside.domain.tasks.task import Task
from trackside.scheduler.hosts.estimates import MemoryDemand
from trackside.scheduler.hosts.requirements import (
    Requirements,
    effective_priority,
    requirements_of,
    waiting_since_ms,
)

SubmissionOrder = tuple[int, int, int]
"""When a task was queued, as `Task.queued_at`."""
GroupOrder = tuple[int, int, SubmissionOrder]
"""Negative effective priority, running tasks of the stream in this queue, order of the first task."""
QueuePosition = tuple[int, SubmissionOrder]
"""The same without the running tasks."""
KEPT_CLASSES = 256
"""How many empty scheduling classes are kept; they remember where nothing fits."""


def position_of(order: GroupOrder) -> QueuePosition:
    """Returns the position without the number of running tasks, which changes all the time."""
    return (order[0], order[2])


@dataclass(slots=True, eq=False)
class FairShareGroup:
    """Tasks of one stream, one priority and one scheduling class; `order` is the order among groups."""

    scheduling_class: "SchedulingClass"
    stream: str
    priority: int
    heap_entries: list[tuple[SubmissionOrder, int, str]] = field(default_factory=list)
    members: dict[str, SubmissionOrder] = field(default_factory=dict)
    order: GroupOrder | None = None

    def head(self) -> tuple[SubmissionOrder, int, str] | None:
        """Returns the next task: when it was queued, since when it waits (ms), id; None if there is none."""
        heap_entries = self.heap_entries
        while heap_entries and self.members.get(heap_entries[0][2]) != heap_entries[0][0]:
            heapq.heappop(heap_entries)
        return heap_entries[0] if heap_entries else None


@dataclass(slots=True, eq=False)
class SchedulingClass:
    """All tasks with the same requirements.

    `scan_all`: every host must be scanned, else only `hosts_to_scan`. `stale_groups` are groups whose order
    may have changed; it is computed when it is needed. `unschedulable_reason` says why no worker could ever
    run these tasks; `unreported`: the log may not have the reason yet. `overtaken_since_ms`: since when tasks
    in later positions go first, 0 if none did. `reserved_worker_id`: where a place is reserved for it.
    """

    requirements: Requirements
    groups: dict[tuple[str, int], FairShareGroup] = field(default_factory=dict)
    stale_groups: dict[int, FairShareGroup] = field(default_factory=dict)
    heap: list[tuple[GroupOrder, int, FairShareGroup]] = field(default_factory=list)
    size: int = 0
    scan_all: bool = True
    hosts_to_scan: dict[str, None] = field(default_factory=dict)
    demand: MemoryDemand | None = None
    feasibility_known: bool = False
    unschedulable_reason: str = ""
    unreported: bool = True
    overtaken_since_ms: int = 0
    reserved_worker_id: str = ""

    @property
    def needs_scan(self) -> bool:
        """Whether one of its tasks might find a place now."""
        return (
            self.size > 0
            and not self.unschedulable_reason
            and bool(self.scan_all or self.hosts_to_scan or self.reserved_worker_id)
        )

    def tasks(self) -> Iterator[tuple[str, str]]:
        """Returns all its tasks as (stream, id), in no order."""
        for (stream, _), group in self.groups.items():
            for task_id in group.members:
                yield stream, task_id


class TaskQueue:
    """All scheduling classes; `running_tasks` returns how many tasks of a stream run in a queue."""

    def __init__(self, ageing_ms: int) -> None:
        self.classes: dict[Requirements, SchedulingClass] = {}
        self._group_of: dict[str, FairShareGroup] = {}
        self._groups_by_share: dict[tuple[str, str], dict[int, FairShareGroup]] = {}
        self._ageing_ms = ageing_ms
        self._sequence = 0
        self.running_tasks: Callable[[str, str], int] = lambda queue, stream: 0
        self.now_ms = 0

    def __contains__(self, task_id: str) -> bool:
        return task_id in self._group_of

    def __len__(self) -> int:
        return len(self._group_of)

    def add(self, task: Task, stream: str) -> None:
        """Adds a task to its group; one that is there already stays."""
        requirements = requirements_of(task)
        known = self._group_of.get(task.task_id)
        if known is not None:
            unchanged = (
                known.scheduling_class.requirements == requirements
                and known.members[task.task_id] == task.queued_at
            )
            if unchanged and known.stream == stream and known.priority == task.needs.priority:
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
            self._groups_by_share.setdefault((requirements.queue, stream), {})[id(group)] = group
        entry = (task.queued_at, waiting_since_ms(task), task.task_id)
        group.members[task.task_id] = task.queued_at
        heapq.heappush(group.heap_entries, entry)
        self._group_of[task.task_id] = group
        scheduling_class.size += 1
        scheduling_class.unreported = True
        if group.heap_entries[0] is entry or group.order is None:
            _mark_stale(group)

    def remove(self, task_id: str) -> None:
        """Removes a task, if it is there."""
        group = self._group_of.pop(task_id, None)
        if group is None:
            return
        scheduling_class = group.scheduling_class
        was_head = bool(group.heap_entries) and group.heap_entries[0][2] == task_id
        del group.members[task_id]
        scheduling_class.size -= 1
        if group.members:
            if was_head:
                _mark_stale(group)
            return
        group.order = None
        del scheduling_class.groups[group.stream, group.priority]
        sharing = self._groups_by_share[scheduling_class.requirements.queue, group.stream]
        del sharing[id(group)]
        if not sharing:
            del self._groups_by_share[scheduling_class.requirements.queue, group.stream]
        if scheduling_class.size == 0:
            scheduling_class.overtaken_since_ms, scheduling_class.reserved_worker_id = 0, ""
            self._forget_empty()

    def _forget_empty(self) -> None:
        """Forgets empty classes once there are many; until then they remember where nothing fits."""
        if len(self.classes) > KEPT_CLASSES + 2 * len(self._group_of):
            self.classes = {
                requirements: scheduling_class
                for requirements, scheduling_class in self.classes.items()
                if scheduling_class.size
            }

    def share_changed(self, queue: str, stream: str) -> None:
        """Gets the groups of a stream ordered again after the number of its running tasks changed."""
        for group in self._groups_by_share.get((queue, stream), {}).values():
            _mark_stale(group)

    def reorder(self, now_ms: int) -> None:
        """Gets all groups ordered again: effective priorities rise with time."""
        self.now_ms = now_ms
        for scheduling_class in self.classes.values():
            for group in scheduling_class.groups.values():
                _mark_stale(group)

    def first_group(
        self, scheduling_class: SchedulingClass, skipped: list[FairShareGroup], is_busy: Callable[[str], bool]
    ) -> FairShareGroup | None:
        """Returns the next group of a class or None; groups of busy streams are moved to `skipped`."""
        for stale in scheduling_class.stale_groups.values():
            self._update_order(stale)
        scheduling_class.stale_groups.clear()
        heap = scheduling_class.heap
        while heap:
            order, _, group = heap[0]
            if group.order is not order:
                heapq.heappop(heap)
            elif is_busy(group.stream):
                heapq.heappop(heap)
                group.order = None
                skipped.append(group)
            else:
                return group
        return None

    def put_back(self, skipped: Iterable[FairShareGroup]) -> None:
        """Puts back groups that were skipped."""
        for group in skipped:
            _mark_stale(group)

    def _update_order(self, group: FairShareGroup) -> None:
        head = group.head()
        if head is None:
            group.order = None
            return
        priority = effective_priority(group.priority, self.now_ms - head[1], self._ageing_ms)
        scheduling_class = group.scheduling_class
        order = (
            -priority,
            self.running_tasks(scheduling_class.requirements.queue, group.stream),
            head[0],
        )
        if order == group.order:
            return
        group.order = order
        self._sequence += 1
        heapq.heappush(scheduling_class.heap, (order, self._sequence, group))
        if len(scheduling_class.heap) > 4 * len(scheduling_class.groups) + 64:
            scheduling_class.heap = [entry for entry in scheduling_class.heap if entry[2].order is entry[0]]
            heapq.heapify(scheduling_class.heap)


def _mark_stale(group: FairShareGroup) -> None:
    group.scheduling_class.stale_groups[id(group)] = group
