"""One pass of the scheduler: assigns, preempts and recalls tasks, and marks unschedulable ones. Pure.

Waiting tasks are tried in order. One that fits is placed; one that does not may preempt others, and one that
was overtaken for too long has a place reserved. Only then are tasks placed after running ones.
"""

import heapq
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count

from trackside.domain.tasks.task import Task
from trackside.scheduler.hosts.booking import Booking
from trackside.scheduler.hosts.device_state import DeviceState
from trackside.scheduler.hosts.occupancy import HostState
from trackside.scheduler.placing.placement import (
    Candidate,
    PlacementQuery,
    Scan,
    least_gpu_bytes,
    scan_behind,
    scan_free,
)
from trackside.scheduler.placing.preemption import plan_preemption, without_bookings
from trackside.scheduler.placing.starvation import reserve_place
from trackside.scheduler.planning.actions import Action, Assign, MarkUnschedulable, Preempt, Recall
from trackside.scheduler.planning.cluster_state import ClusterState
from trackside.scheduler.planning.queue import (
    FairShareGroup,
    GroupOrder,
    QueuePosition,
    SchedulingClass,
    TaskQueue,
    position_of,
)

MAX_ACTIONS = 500
"""The most that one pass decides, so that it stays short; the next pass continues."""
RECALL_MS = 2_000
"""How long a free place is reserved for a task that was recalled for it."""


IsBusy = Callable[[str], bool]
"""Whether a stream has a decision on its way to the log, so that nothing can be decided about it."""
Nomination = tuple[str, str, tuple[str, ...]]
"""Worker id, task id and device ids of a place that is reserved for a task."""
RecallNominations = dict[str, tuple[int, str, Booking]]
"""Places reserved for recalled tasks, by task id: until when (ms since 1970), worker id, booking."""
WorkerClass = tuple[frozenset[str], frozenset[str]]
"""The task types and queues of a worker."""


class SchedulingPass:
    """One pass: reserved places are booked as nominations while it runs.

    After it, `nominations` are the reserved places, `newest_positions` the latest queue position that was
    placed on each class of workers.
    """

    def __init__(
        self, cluster: ClusterState, recall_nominations: RecallNominations, now_ms: int, is_busy: IsBusy
    ) -> None:
        self._cluster = cluster
        self._recall_nominations = recall_nominations
        self._now_ms = now_ms
        self._is_busy = is_busy
        self._rules = cluster.policy.placement_rules
        self._actions: list[Action] = []
        self._nominations: list[tuple[HostState, Booking]] = []
        self._scans: dict[int, Scan] = {}
        self._unplaced: list[SchedulingClass] = []
        self._undecided: list[SchedulingClass] = []
        self.nominations: set[Nomination] = set()
        self.newest_positions: dict[WorkerClass, QueuePosition] = {}

    def run(self) -> list[Action]:
        """Returns the actions of this pass."""
        self._mark_unschedulable()
        try:
            self._book_recall_nominations()
            queues = (self._cluster.waiting, self._cluster.placed_behind)
            open_classes = [
                (task_queue, scheduling_class)
                for task_queue in queues
                for scheduling_class in task_queue.classes.values()
                if scheduling_class.needs_scan
            ]
            self._serve(open_classes, self._place_or_reserve)
            unplaced, self._unplaced = self._unplaced, []
            self._scans.clear()
            self._serve(
                [(self._cluster.waiting, scheduling_class) for scheduling_class in unplaced],
                self._place_behind,
            )
        finally:
            for host, booking in self._nominations:
                host.unbook(booking.task_id)
                self.nominations.add((host.worker.worker_id, booking.task_id, booking.device_ids))
        return self._actions

    def _serve(
        self,
        entries: Iterable[tuple[TaskQueue, SchedulingClass]],
        serve: Callable[[TaskQueue, SchedulingClass, FairShareGroup], bool],
    ) -> None:
        """Serves classes in queue order, each until `serve` returns False: nothing more of it fits."""
        skipped_by_queue: list[tuple[TaskQueue, list[FairShareGroup]]] = []
        heads: list[tuple[GroupOrder, int, TaskQueue, SchedulingClass, list[FairShareGroup]]] = []
        sequence = count()
        for task_queue, scheduling_class in entries:
            skipped: list[FairShareGroup] = []
            skipped_by_queue.append((task_queue, skipped))
            group = task_queue.first_group(scheduling_class, skipped, self._is_busy)
            if group is not None and group.order is not None:
                heapq.heappush(heads, (group.order, next(sequence), task_queue, scheduling_class, skipped))
        while heads and len(self._actions) < MAX_ACTIONS:
            order, _, task_queue, scheduling_class, skipped = heapq.heappop(heads)
            group = task_queue.first_group(scheduling_class, skipped, self._is_busy)
            if group is not None and group.order == order:
                if not serve(task_queue, scheduling_class, group):
                    self._close(scheduling_class, skipped)
                    continue
                group = task_queue.first_group(scheduling_class, skipped, self._is_busy)
            if group is not None and group.order is not None:
                heapq.heappush(heads, (group.order, next(sequence), task_queue, scheduling_class, skipped))
        for task_queue, skipped in skipped_by_queue:
            task_queue.put_back(skipped)

    def _close(self, scheduling_class: SchedulingClass, skipped: list[FairShareGroup]) -> None:
        """Notes that nothing more of a class fits, unless some of it could not be decided about."""
        if not skipped and scheduling_class not in self._unplaced and scheduling_class not in self._undecided:
            scheduling_class.scan_all = False
            scheduling_class.hosts_to_scan.clear()

    def _place_or_reserve(
        self, task_queue: TaskQueue, scheduling_class: SchedulingClass, group: FairShareGroup
    ) -> bool:
        head = group.head()
        assert head is not None
        task = self._cluster.tasks[head[2]]
        if task_queue is self._cluster.placed_behind:
            return self._recall_to_free_device(scheduling_class, task)
        if self._cluster.is_queue_full(scheduling_class.requirements.queue):
            return False
        candidate = self._scan(scheduling_class).best()
        if candidate is not None:
            self._assign(scheduling_class, group, task, candidate)
            return True
        if (
            not self._preempt_or_reserve(scheduling_class, task)
            and scheduling_class.requirements.allows_look_ahead
            and self._cluster.policy.look_ahead
        ):
            self._unplaced.append(scheduling_class)
        return False

    def _assign(
        self,
        scheduling_class: SchedulingClass,
        group: FairShareGroup,
        task: Task,
        candidate: Candidate,
        behind: bool = False,
    ) -> None:
        worker = candidate.host.worker
        assert group.order is not None
        worker_class = (worker.task_types, worker.queues)
        position = position_of(group.order)
        self.newest_positions[worker_class] = max(self.newest_positions.get(worker_class, position), position)
        scheduling_class.overtaken_since_ms, scheduling_class.reserved_worker_id = 0, ""
        self._cluster.assign(task, candidate, scheduling_class.requirements, behind)
        self._actions.append(Assign(task, candidate, behind))

    def _hosts(self, scheduling_class: SchedulingClass) -> list[HostState]:
        hosts = self._cluster.hosts
        if scheduling_class.scan_all:
            return hosts.open
        names = (
            {**scheduling_class.hosts_to_scan, scheduling_class.reserved_worker_id: None}
            if scheduling_class.reserved_worker_id
            else scheduling_class.hosts_to_scan
        )
        return [host for name in names if (host := hosts.by_id.get(name)) is not None and host.open]

    def _query(self, scheduling_class: SchedulingClass) -> PlacementQuery:
        requirements = scheduling_class.requirements

        def is_usable(device: DeviceState | HostState) -> bool:
            if not device.avoided_until_ms:
                return True
            until_ms = max(device.avoided_until_ms.get(requirements, 0), device.avoided_until_ms.get(None, 0))
            return until_ms <= self._now_ms

        return PlacementQuery(
            requirements,
            self._cluster.demand(scheduling_class),
            self._rules,
            is_usable,
            self._cluster.durations.expected_ms(requirements.task_type),
        )

    def _scan(self, scheduling_class: SchedulingClass) -> Scan:
        scan = self._scans.get(id(scheduling_class))
        if scan is None:
            scan = scan_free(self._hosts(scheduling_class), self._query(scheduling_class))
            self._scans[id(scheduling_class)] = scan
        return scan

    def _preempt_or_reserve(self, scheduling_class: SchedulingClass, task: Task) -> bool:
        """Preempts or reserves a place for a task that does not fit; returns whether it has one."""
        if scheduling_class.requirements.preempts_below >= 0 and self._preempt(scheduling_class, task):
            return True
        waited_ms = self._now_ms - scheduling_class.overtaken_since_ms
        if not scheduling_class.overtaken_since_ms or waited_ms < self._cluster.policy.hold_after_ms:
            scheduling_class.reserved_worker_id = ""
            return False
        hosts = (
            [self._cluster.hosts.by_id[scheduling_class.reserved_worker_id]]
            if scheduling_class.reserved_worker_id
            else self._hosts(scheduling_class)
        )
        candidate = reserve_place(hosts, self._query(scheduling_class))
        if candidate is None:
            scheduling_class.reserved_worker_id = ""
            return False
        scheduling_class.reserved_worker_id = candidate.host.worker.worker_id
        self._nominate(scheduling_class, task, candidate)
        return True

    def _preempt(self, scheduling_class: SchedulingClass, task: Task) -> bool:
        cluster = self._cluster

        def may_preempt(booking: Booking) -> bool:
            is_busy = self._is_busy(cluster.stream_of[booking.task_id])
            if is_busy and scheduling_class not in self._undecided:
                self._undecided.append(scheduling_class)
            return not is_busy and booking.task_id in cluster.placed

        found = plan_preemption(self._hosts(scheduling_class), self._query(scheduling_class), may_preempt)
        if found is None:
            return False
        for victim in found.victims:
            if self._recall(victim, f"task {task.task_id} needs the device"):
                continue
            cluster.preempt(victim)
            self._actions.append(Preempt(cluster.tasks[victim.task_id], task.task_id))
        scheduling_class.reserved_worker_id = found.candidate.host.worker.worker_id
        self._nominate(scheduling_class, task, found.candidate)
        return True

    def _nominate(self, scheduling_class: SchedulingClass, task: Task, candidate: Candidate) -> None:
        """Reserves a place for a task, and recalls tasks that wait there."""
        for device in candidate.devices:
            for waiting in device.waiting:
                if waiting.priority <= task.needs.priority:
                    self._recall(waiting, f"the place is reserved for task {task.task_id}")
        booking = candidate.booking(
            f"nomination {task.task_id}", scheduling_class.requirements, nominated=True
        )
        candidate.host.book(booking)
        self._nominations.append((candidate.host, booking))

    def _recall(self, booking: Booking, reason: str) -> bool:
        cluster = self._cluster
        task = cluster.tasks[booking.task_id]
        is_busy = self._is_busy(cluster.stream_of[task.task_id])
        known = task.task_id in cluster.placed and booking.behind
        if is_busy or not known or booking.recalled or booking.accepted or booking.stopping:
            return False
        cluster.recall(booking)
        self._actions.append(Recall(task, reason))
        return True

    def _recall_to_free_device(self, scheduling_class: SchedulingClass, task: Task) -> bool:
        """Recalls a task that waits for a running one although it fits on another device now."""
        cluster = self._cluster
        _, booking = cluster.bookings[task.task_id]
        host = cluster.hosts.by_id.get(cluster.bookings[task.task_id][0])
        if host is None or not host.is_waiting(booking):
            cluster.placed_behind.remove(task.task_id)
            return True
        candidate = self._free_candidate(scheduling_class, host, booking)
        if candidate is None:
            return False
        worker_id = candidate.host.worker.worker_id
        if not self._recall(booking, f"{', '.join(candidate.device_ids)} of {worker_id} is free"):
            cluster.placed_behind.remove(task.task_id)
            return True
        nomination = candidate.booking(
            f"nomination {task.task_id}", scheduling_class.requirements, nominated=True
        )
        self._recall_nominations[task.task_id] = (self._now_ms + RECALL_MS, worker_id, nomination)
        candidate.host.book(nomination)
        self._nominations.append((candidate.host, nomination))
        return True

    def _free_candidate(
        self, scheduling_class: SchedulingClass, host: HostState, booking: Booking
    ) -> Candidate | None:
        """Returns a free place for a waiting task; on its own host its present booking does not count."""
        query = self._query(scheduling_class)

        def is_other(device: DeviceState | HostState) -> bool:
            is_own = isinstance(device, DeviceState) and device.spec.device_id in booking.device_ids
            return not is_own and query.is_usable(device)

        same_host = None
        least_bytes = least_gpu_bytes(query.requirements, query.demand)
        if any(is_other(device) for device in host.open_devices.free(query.requirements, least_bytes)):
            others = replace(query, is_usable=is_other)
            same_host = without_bookings(host, [booking], lambda: scan_free([host], others).best())
        return same_host or self._scan(scheduling_class).best()

    def _book_recall_nominations(self) -> None:
        cluster = self._cluster
        for task_id, (_, worker_id, nomination) in list(self._recall_nominations.items()):
            host = cluster.hosts.by_id.get(worker_id)
            booking = cluster.bookings.get(task_id)
            if host is None or not host.open or booking is None or not booking[1].recalled:
                del self._recall_nominations[task_id]
                if host is not None:
                    cluster.hosts.note_room(worker_id)
                continue
            host.book(nomination)
            self._nominations.append((host, nomination))

    def _place_behind(
        self, task_queue: TaskQueue, scheduling_class: SchedulingClass, group: FairShareGroup
    ) -> bool:
        head = group.head()
        assert head is not None
        task = self._cluster.tasks[head[2]]
        if self._cluster.is_queue_full(scheduling_class.requirements.queue):
            return False
        scan = self._scans.get(id(scheduling_class))
        if scan is None:
            scan = scan_behind(self._hosts(scheduling_class), self._query(scheduling_class))
            self._scans[id(scheduling_class)] = scan
        candidate = scan.best()
        if candidate is not None:
            self._assign(scheduling_class, group, task, candidate, behind=True)
            return True
        self._recall_lower_priority(scheduling_class, task)
        return False

    def _recall_lower_priority(self, scheduling_class: SchedulingClass, task: Task) -> None:
        """Recalls the waiting task of the lowest priority, if it is lower than this task's."""
        query = self._query(scheduling_class)
        requirements = query.requirements
        lowest: Booking | None = None
        for host in self._hosts(scheduling_class):
            has_lower = host.open_devices.lowest_waiting_priority < task.needs.priority
            if not has_lower or not host.serves(requirements):
                continue
            for device in host.matching_devices(requirements):
                lower = [each for each in device.waiting if each.priority < task.needs.priority]
                if not lower or not device.takes_tasks or not query.is_usable(device):
                    continue
                if any(waiting.recalled for waiting in lower):
                    return
                # Of those with the same priority the last one: it would begin latest.
                waiting = min(reversed(lower), key=lambda each: each.priority)
                if lowest is None or waiting.priority < lowest.priority:
                    lowest = waiting
        if lowest is not None and not self._recall(lowest, f"task {task.task_id} has a higher priority"):
            self._undecided.append(scheduling_class)

    def _mark_unschedulable(self) -> None:
        cluster = self._cluster
        hosts: list[HostState] | None = None
        for scheduling_class in cluster.waiting.classes.values():
            if not scheduling_class.feasibility_known:
                hosts = cluster.hosts.feasibility_hosts(self._now_ms) if hosts is None else hosts
                cluster.check_feasibility(scheduling_class, hosts)
            if not (scheduling_class.unschedulable_reason and scheduling_class.unreported):
                continue
            scheduling_class.unreported = False
            for stream, task_id in scheduling_class.tasks():
                task = cluster.tasks[task_id]
                if task.unschedulable == scheduling_class.unschedulable_reason:
                    continue
                if self._is_busy(stream) or len(self._actions) >= MAX_ACTIONS:
                    scheduling_class.unreported = True
                else:
                    self._actions.append(MarkUnschedulable(task, scheduling_class.unschedulable_reason))
