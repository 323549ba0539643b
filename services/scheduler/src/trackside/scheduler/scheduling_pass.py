"""One pass of the scheduler: who gets which place now, who must make room, who is told that it can't run.

Waiting tasks are looked at in order. What fits is placed; what doesn't may push others aside, and what was
overtaken for too long has a place kept. Only then may tasks be placed behind running ones. Pure.
"""

import heapq
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count

from trackside.domain.task import Task
from trackside.scheduler.actions import Action, Assign, MarkUnschedulable, Preempt, Recall
from trackside.scheduler.cluster_state import ClusterState
from trackside.scheduler.occupancy import Booking, Host, Slot
from trackside.scheduler.placement import (
    Candidate,
    CandidateScan,
    FirstFitScan,
    least_on_gpu,
    scan_behind,
    scan_free,
)
from trackside.scheduler.preemption import push, without
from trackside.scheduler.queue import (
    FairShareGroup,
    GroupOrder,
    QueuePosition,
    SchedulingClass,
    TaskQueue,
    position_of,
)
from trackside.scheduler.requirements import Requirements
from trackside.scheduler.starvation import reserve_place

MAX_ACTIONS = 500
"""The most that one pass decides, so that a pass stays short; the next continues."""
RECALL_MS = 2_000
"""How long a free place is kept for a task that was asked back for it."""


IsBusy = Callable[[str], bool]
Nomination = tuple[str, str, tuple[str, ...]]
RecallNominations = dict[str, tuple[int, str, Booking]]
WorkerClass = tuple[frozenset[str], frozenset[str]]


class SchedulingPass:
    """One pass: places that are kept are booked as nominations while it lasts."""

    def __init__(
        self, cluster: ClusterState, recall_nominations: RecallNominations, now_ms: int, is_busy: IsBusy
    ) -> None:
        self._cluster = cluster
        self._recall_nominations = recall_nominations
        self._now_ms = now_ms
        self._is_busy = is_busy
        self._rules = cluster.policy.rules
        self._actions: list[Action] = []
        self._nominations: list[tuple[Host, Booking]] = []
        self._scans: dict[int, CandidateScan | FirstFitScan] = {}
        self._stuck: list[SchedulingClass] = []
        self._unsettled: list[SchedulingClass] = []
        self.nominations: set[Nomination] = set()
        self.latest: dict[WorkerClass, QueuePosition] = {}

    def run(self) -> list[Action]:
        """Gives the actions of this pass."""
        self._mark_unschedulable()
        try:
            self._keep_for_recalled()
            both = (self._cluster.waiting, self._cluster.behind)
            opened = [
                (task_queue, scheduling_class)
                for task_queue in both
                for scheduling_class in task_queue.classes.values()
                if scheduling_class.is_open
            ]
            self._serve(opened, self._place_or_make_room)
            stuck, self._stuck = self._stuck, []
            self._scans.clear()
            self._serve(
                [(self._cluster.waiting, scheduling_class) for scheduling_class in stuck], self._place_behind
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
        """Lets the open classes be served in order, each until it says that nothing more fits."""
        asides: list[tuple[TaskQueue, list[FairShareGroup]]] = []
        heads: list[tuple[GroupOrder, int, TaskQueue, SchedulingClass, list[FairShareGroup]]] = []
        number = count()
        for task_queue, scheduling_class in entries:
            aside: list[FairShareGroup] = []
            asides.append((task_queue, aside))
            group = task_queue.best(scheduling_class, aside, self._is_busy)
            if group is not None and group.key is not None:
                heapq.heappush(heads, (group.key, next(number), task_queue, scheduling_class, aside))
        while heads and len(self._actions) < MAX_ACTIONS:
            key, _, task_queue, scheduling_class, aside = heapq.heappop(heads)
            group = task_queue.best(scheduling_class, aside, self._is_busy)
            if group is not None and group.key == key:
                if not serve(task_queue, scheduling_class, group):
                    self._close(scheduling_class, aside)
                    continue
                group = task_queue.best(scheduling_class, aside, self._is_busy)
            if group is not None and group.key is not None:
                heapq.heappush(heads, (group.key, next(number), task_queue, scheduling_class, aside))
        for task_queue, aside in asides:
            task_queue.back(aside)

    def _close(self, scheduling_class: SchedulingClass, aside: list[FairShareGroup]) -> None:
        """Notes that nothing more of a class fits; if some of it can't be decided about, it stays open."""
        if not aside and scheduling_class not in self._stuck and scheduling_class not in self._unsettled:
            scheduling_class.fresh = False
            scheduling_class.pending.clear()

    def _place_or_make_room(
        self, task_queue: TaskQueue, scheduling_class: SchedulingClass, group: FairShareGroup
    ) -> bool:
        head = group.head()
        assert head is not None
        task = self._cluster.tasks[head[2]]
        if task_queue is self._cluster.behind:
            return self._take_back(scheduling_class, task)
        if self._cluster.is_limited(scheduling_class.requirements.queue):
            return False
        candidate = self._scan(scheduling_class).best()
        if candidate is not None:
            self._assign(scheduling_class, group, task, candidate)
            return True
        if (
            not self._make_room(scheduling_class, task)
            and scheduling_class.requirements.may_wait
            and self._cluster.policy.look_ahead
        ):
            self._stuck.append(scheduling_class)
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
        assert group.key is not None
        worker_class = (worker.task_types, worker.queues)
        position = position_of(group.key)
        self.latest[worker_class] = max(self.latest.get(worker_class, position), position)
        scheduling_class.overtaken_ms, scheduling_class.held = 0, ""
        self._cluster.assign(task, candidate, scheduling_class.requirements, behind)
        self._actions.append(Assign(task, candidate, behind))

    def _hosts(self, scheduling_class: SchedulingClass) -> list[Host]:
        hosts = self._cluster.hosts
        if scheduling_class.fresh:
            return hosts.open
        names = (
            {**scheduling_class.pending, scheduling_class.held: None}
            if scheduling_class.held
            else scheduling_class.pending
        )
        return [host for name in names if (host := hosts.by_id.get(name)) is not None and host.open]

    def _usable(self, requirements: Requirements) -> Callable[[Slot], bool]:
        def usable(slot: Slot) -> bool:
            if not slot.avoided:
                return True
            until_ms = max(slot.avoided.get(requirements, 0), slot.avoided.get(None, 0))
            return until_ms <= self._now_ms

        return usable

    def _scan(self, scheduling_class: SchedulingClass) -> CandidateScan | FirstFitScan:
        scan = self._scans.get(id(scheduling_class))
        if scan is None:
            scan = scan_free(
                self._hosts(scheduling_class),
                scheduling_class.requirements,
                self._cluster.want(scheduling_class),
                self._rules,
                self._usable(scheduling_class.requirements),
            )
            self._scans[id(scheduling_class)] = scan
        return scan

    def _make_room(self, scheduling_class: SchedulingClass, task: Task) -> bool:
        """Keeps or makes a place for a task that doesn't fit: says whether there is one."""
        if scheduling_class.requirements.preempts >= 0 and self._push_others(scheduling_class, task):
            return True
        waited_ms = self._now_ms - scheduling_class.overtaken_ms
        if not scheduling_class.overtaken_ms or waited_ms < self._cluster.policy.hold_after_ms:
            scheduling_class.held = ""
            return False
        hosts = (
            [self._cluster.hosts.by_id[scheduling_class.held]]
            if scheduling_class.held
            else self._hosts(scheduling_class)
        )
        candidate = reserve_place(
            hosts,
            scheduling_class.requirements,
            self._cluster.want(scheduling_class),
            self._usable(scheduling_class.requirements),
        )
        if candidate is None:
            scheduling_class.held = ""
            return False
        scheduling_class.held = candidate.host.worker.worker_id
        self._nominate(scheduling_class, task, candidate)
        return True

    def _push_others(self, scheduling_class: SchedulingClass, task: Task) -> bool:
        cluster = self._cluster

        def may_go(booking: Booking) -> bool:
            is_busy = self._is_busy(cluster.stream_of[booking.task_id])
            if is_busy and scheduling_class not in self._unsettled:
                self._unsettled.append(scheduling_class)
            return not is_busy and booking.task_id in cluster.placed

        found = push(
            self._hosts(scheduling_class),
            scheduling_class.requirements,
            cluster.want(scheduling_class),
            self._rules,
            self._usable(scheduling_class.requirements),
            may_go,
        )
        if found is None:
            return False
        for victim in found.victims:
            if self._recall(victim, f"task {task.task_id} needs the device"):
                continue
            cluster.preempt(victim)
            self._actions.append(Preempt(cluster.tasks[victim.task_id], task.task_id))
        scheduling_class.held = found.candidate.host.worker.worker_id
        self._nominate(scheduling_class, task, found.candidate)
        return True

    def _nominate(self, scheduling_class: SchedulingClass, task: Task, candidate: Candidate) -> None:
        """Keeps a place for a task, and asks those back who wait behind the tasks that have it now."""
        for slot in candidate.slots:
            waiting = slot.waiting
            if waiting is not None and waiting.priority <= task.needs.priority:
                self._recall(waiting, f"the place is kept for task {task.task_id}")
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

    def _take_back(self, scheduling_class: SchedulingClass, task: Task) -> bool:
        """Asks a task back that waits behind another one although it fits somewhere now."""
        cluster = self._cluster
        _, booking = cluster.bookings[task.task_id]
        host = cluster.hosts.by_id.get(cluster.bookings[task.task_id][0])
        if host is None or not host.is_waiting(booking):
            cluster.behind.remove(task.task_id)
            return True
        candidate = self._elsewhere(scheduling_class, host, booking)
        if candidate is None:
            return False
        if not self._recall(
            booking, f"{', '.join(candidate.device_ids)} of {candidate.host.worker.worker_id} is free"
        ):
            cluster.behind.remove(task.task_id)
            return True
        nomination = candidate.booking(
            f"nomination {task.task_id}", scheduling_class.requirements, nominated=True
        )
        self._recall_nominations[task.task_id] = (
            self._now_ms + RECALL_MS,
            candidate.host.worker.worker_id,
            nomination,
        )
        candidate.host.book(nomination)
        self._nominations.append((candidate.host, nomination))
        return True

    def _elsewhere(self, scheduling_class: SchedulingClass, host: Host, booking: Booking) -> Candidate | None:
        """Gives a free place for a task that waits behind another one; on its own host it counts once."""
        want, usable = self._cluster.want(scheduling_class), self._usable(scheduling_class.requirements)

        def is_other(slot: Slot) -> bool:
            return slot.device.device_id not in booking.device_ids and usable(slot)

        near = None
        if any(
            is_other(slot)
            for slot in host.openings.free(
                scheduling_class.requirements, least_on_gpu(scheduling_class.requirements, want)
            )
        ):
            scan = partial(scan_free, [host], scheduling_class.requirements, want, self._rules, is_other)
            near = without(host, [booking], lambda: scan().best())
        return near or self._scan(scheduling_class).best()

    def _keep_for_recalled(self) -> None:
        cluster = self._cluster
        for task_id, (_, worker_id, nomination) in list(self._recall_nominations.items()):
            host = cluster.hosts.by_id.get(worker_id)
            booking = cluster.bookings.get(task_id)
            if host is None or not host.open or booking is None or not booking[1].recalled:
                del self._recall_nominations[task_id]
                cluster.hosts.gained[worker_id] = None
                continue
            host.book(nomination)
            self._nominations.append((host, nomination))

    def _place_behind(
        self, task_queue: TaskQueue, scheduling_class: SchedulingClass, group: FairShareGroup
    ) -> bool:
        head = group.head()
        assert head is not None
        task = self._cluster.tasks[head[2]]
        if self._cluster.is_limited(scheduling_class.requirements.queue):
            return False
        scan = self._scans.get(id(scheduling_class))
        if scan is None:
            want, usable = self._cluster.want(scheduling_class), self._usable(scheduling_class.requirements)
            scan = scan_behind(
                self._hosts(scheduling_class), scheduling_class.requirements, want, self._rules.gates, usable
            )
            self._scans[id(scheduling_class)] = scan
        candidate = scan.best()
        if candidate is not None:
            self._assign(scheduling_class, group, task, candidate, behind=True)
            return True
        self._take_place_behind(scheduling_class, task)
        return False

    def _take_place_behind(self, scheduling_class: SchedulingClass, task: Task) -> None:
        """Asks back a task of lower priority whose place behind another one this task would have."""
        usable = self._usable(scheduling_class.requirements)
        lowest: Booking | None = None
        for host in self._hosts(scheduling_class):
            if host.openings.lowest >= task.needs.priority or not host.serves(scheduling_class.requirements):
                continue
            for slot in host.matching_devices(scheduling_class.requirements):
                waiting = slot.waiting
                if waiting is None or waiting.priority >= task.needs.priority or not usable(slot):
                    continue
                if waiting.recalled:
                    return
                if lowest is None or waiting.priority < lowest.priority:
                    lowest = waiting
        if lowest is not None and not self._recall(lowest, f"task {task.task_id} has a higher priority"):
            self._unsettled.append(scheduling_class)

    def _mark_unschedulable(self) -> None:
        cluster = self._cluster
        judged: list[Host] | None = None
        for scheduling_class in cluster.waiting.classes.values():
            if not scheduling_class.judged:
                judged = cluster.hosts.judged(self._now_ms) if judged is None else judged
                cluster.judge(scheduling_class, judged)
            if not (scheduling_class.never and scheduling_class.unsaid):
                continue
            scheduling_class.unsaid = False
            for stream, task_id in scheduling_class.tasks():
                task = cluster.tasks[task_id]
                if task.unschedulable == scheduling_class.never:
                    continue
                if self._is_busy(stream) or len(self._actions) >= MAX_ACTIONS:
                    scheduling_class.unsaid = True
                else:
                    self._actions.append(MarkUnschedulable(task, scheduling_class.never))
