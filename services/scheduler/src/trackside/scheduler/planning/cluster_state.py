"""All tasks and hosts as the scheduler sees them, kept up to date task by task. Pure.

A decision counts before it is folded: `assign`, `preempt` and `recall` change the state at once, and
`discard_tentative` restores the folded state where the log did not accept the decision.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from trackside.domain.tasks import task_instructions
from trackside.domain.tasks.task import Task, TaskState
from trackside.scheduler.hosts.booking import Booking, booking_of, refresh_booking
from trackside.scheduler.hosts.estimates import (
    MemoryDemand,
    MemoryPeaks,
    TaskDurations,
    largest_offer,
    memory_demand,
)
from trackside.scheduler.hosts.hosts import Hosts
from trackside.scheduler.hosts.occupancy import HostState
from trackside.scheduler.hosts.requirements import Requirements, effective_priority, waiting_since_ms
from trackside.scheduler.hosts.timers import Timers
from trackside.scheduler.placing.placement import Candidate, PlacementRules
from trackside.scheduler.placing.unschedulable import memory_offers, unschedulable_reason
from trackside.scheduler.planning.queue import SchedulingClass, TaskQueue

REFUSALS = 10
"""A task that was refused this often in one attempt is given up."""
REFUSED_FOR_NOW = frozenset({"device_busy", "journal_unwritable"})
"""Refusals that don't count for that, as no task is at fault: a worker that can't write refuses all of them,
and a device may still have the task of a neighbour that was declared lost. The device is avoided meanwhile.
"""


@dataclass(frozen=True, slots=True)
class SchedulingPolicy:
    """The settings of an operator, in bytes and ms.

    `hold_after_ms`: how long a task may be overtaken before a place is reserved for it. `default_bytes`: on
    the host and on a GPU. `lease_s` is only passed on to workers.
    """

    placement_rules: PlacementRules = field(default_factory=PlacementRules)
    ageing_ms: int = 600_000
    hold_after_ms: int = 60_000
    look_ahead: int = 1
    queue_limits: dict[str, int] = field(default_factory=dict)
    default_bytes: tuple[int, int] = (2 * 10**9, 2 * 10**9)
    lease_s: float = 10.0


class ClusterState:
    """Tasks, where they wait or are placed, and the hosts.

    `unanswered` are placed tasks whose worker has a command to answer or waits for parameters, or that have
    an instruction to acknowledge, `tasks_on` the
    ids of placed tasks by (worker id, incarnation), `given_up` tasks that were refused too often. `waiting`
    is the queue of tasks without a place, `placed_behind` that of tasks placed after a running one. `running`
    counts placed tasks by queue, `full_queues` are queues in which a limit held tasks back. `bookings` are
    (worker id, booking).
    """

    def __init__(self, policy: SchedulingPolicy | None = None) -> None:
        self.policy = policy or SchedulingPolicy()
        self.tasks: dict[str, Task] = {}
        self.stream_of: dict[str, str] = {}
        self.placed: dict[str, Task] = {}
        self.unanswered: dict[str, Task] = {}
        self.tasks_on: dict[tuple[str, str], dict[str, None]] = {}
        self.given_up: dict[str, Task] = {}
        self.waiting = TaskQueue(self.policy.ageing_ms)
        self.placed_behind = TaskQueue(self.policy.ageing_ms)
        self.hosts = Hosts(self.policy.placement_rules.admission, self.policy.look_ahead)
        self.peaks = MemoryPeaks()
        self.durations = TaskDurations()
        self.backoff_timers = Timers()
        self.time_limits = Timers()
        self.running: Counter[str] = Counter()
        self.full_queues: set[str] = set()
        self.bookings: dict[str, tuple[str, Booking]] = {}
        self.now_ms = 0
        self._location: dict[str, tuple[str, str]] = {}
        self._tentative: dict[str, dict[str, None]] = {}
        self._counted: dict[str, tuple[str, str]] = {}
        self._running_by_stream: Counter[tuple[str, str]] = Counter()
        self.waiting.running_tasks = self.placed_behind.running_tasks = self._running_tasks

    def update(self, stream_id: str, task: Task) -> None:
        """Applies a task that has changed."""
        task_id = task.task_id
        if stream_id in self._tentative:
            self._tentative[stream_id].pop(task_id, None)
        if task.state is TaskState.ENDED:
            self._forget(task)
            return
        self.tasks[task_id] = task
        self.stream_of[task_id] = stream_id
        self.time_limits.set(task_id, task.due_ms)
        if task.state is TaskState.QUEUED:
            self._unplace(task_id)
            self._enqueue(stream_id, task)
        else:
            self.waiting.remove(task_id)
            self.backoff_timers.set(task_id, None)
            self._place(stream_id, task)

    def set_aside(self, task: Task) -> None:
        """Stops considering a task of a stream that is parked; its place stays taken until `release`."""
        task_id = task.task_id
        if task.state is TaskState.QUEUED:
            self._unplace(task_id)
        self.waiting.remove(task_id)
        self.placed_behind.remove(task_id)
        self.given_up.pop(task_id, None)
        self.backoff_timers.set(task_id, None)
        self.time_limits.set(task_id, None)

    def release(self, task_id: str) -> None:
        """Frees the place of a task."""
        self._unplace(task_id)

    def assign(self, task: Task, candidate: Candidate, requirements: Requirements, behind: bool) -> None:
        """Books the place that a task was just assigned, before the assignment is folded."""
        task_id, stream_id = task.task_id, self.stream_of[task.task_id]
        waited_ms = self.now_ms - waiting_since_ms(task)
        booking = candidate.booking(task_id, requirements, behind=behind)
        booking.effective_priority = effective_priority(task.needs.priority, waited_ms, self.policy.ageing_ms)
        booking.priority = task.needs.priority
        booking.endless, booking.gives_way = task.needs.service is not None, task.needs.gives_way
        booking.assigned_ms = self.now_ms
        booking.expected_ms = self.durations.expected_ms(task.task_type)
        self.waiting.remove(task_id)
        candidate.host.book(booking)
        self.bookings[task_id] = (candidate.host.worker.worker_id, booking)
        self._count(task_id, task.needs.queue, stream_id)
        self._tentative.setdefault(stream_id, {})[task_id] = None

    def preempt(self, booking: Booking) -> None:
        """Marks a task as stopping, before the preemption is folded."""
        booking.stopping = True
        self._note_tentative(booking.task_id)

    def recall(self, booking: Booking) -> None:
        """Marks a task as recalled, before the recall is folded."""
        booking.recalled = True
        worker_id, _ = self.bookings[booking.task_id]
        self.hosts.by_id[worker_id].note_recall(booking)
        self.placed_behind.remove(booking.task_id)
        self._note_tentative(booking.task_id)

    def discard_tentative(self, is_busy: Callable[[str], bool]) -> None:
        """Restores the folded state of decisions that are not in the log, for streams that are not busy."""
        for stream_id in [name for name in self._tentative if not is_busy(name)]:
            for task_id in self._tentative.pop(stream_id):
                if (task := self.tasks.get(task_id)) is not None:
                    self._unplace(task_id)
                    self.update(stream_id, task)

    def advance(self, now_ms: int) -> None:
        """Advances the time: tasks whose back-off has passed may be placed now."""
        self.now_ms = now_ms
        self.hosts.advance(now_ms)
        for task_id in self.backoff_timers.pop_due(now_ms):
            task = self.tasks.get(task_id)
            if task is not None and task.state is TaskState.QUEUED and task_id not in self.bookings:
                self.waiting.add(task, self.stream_of[task_id])

    def demand(self, scheduling_class: SchedulingClass) -> MemoryDemand:
        """Returns the memory that the tasks of a class need, by what is known now."""
        if scheduling_class.demand is None:
            requirements = scheduling_class.requirements
            offers = memory_offers(self.hosts.open, requirements)
            # A worker that is gone for a short time may be the one that allows more.
            present = memory_offers(self.hosts.feasibility_hosts(self.now_ms), requirements)
            scheduling_class.demand = memory_demand(
                requirements,
                self.peaks,
                self.policy.default_bytes,
                offers,
                largest_offer([offer.memory for offer in present]),
            )
        return scheduling_class.demand

    def fleet_changed(self) -> None:
        """Makes every class scan every host again, and checks again which are unschedulable."""
        hosts = self.hosts.feasibility_hosts(self.now_ms)
        for task_queue in (self.waiting, self.placed_behind):
            for scheduling_class in task_queue.classes.values():
                self.check_feasibility(scheduling_class, hosts)
                scheduling_class.scan_all, scheduling_class.demand = True, None

    def report_again(self) -> None:
        """Gets the reason of each unschedulable class reported again where the log does not have it."""
        for scheduling_class in self.waiting.classes.values():
            scheduling_class.unreported = True

    def check_feasibility(self, scheduling_class: SchedulingClass, hosts: Sequence[HostState]) -> None:
        """Finds out whether any of these hosts could ever run the tasks of a class."""
        reason = unschedulable_reason(scheduling_class.requirements, hosts)
        if reason != scheduling_class.unschedulable_reason:
            scheduling_class.unschedulable_reason, scheduling_class.unreported = reason, True
        scheduling_class.feasibility_known = True

    def is_waiting(self, task_id: str) -> bool:
        """Returns whether a task waits for another one that still runs on its device."""
        worker_id, booking = self.bookings[task_id]
        host = self.hosts.by_id.get(worker_id)
        return host is not None and host.is_waiting(booking)

    def is_queue_full(self, queue: str) -> bool:
        """Returns whether a queue has as many tasks placed as its limit allows."""
        limit = self.policy.queue_limits.get(queue)
        if limit is None or self.running[queue] < limit:
            return False
        self.full_queues.add(queue)
        return True

    def _running_tasks(self, queue: str, stream: str) -> int:
        return self._running_by_stream[queue, stream]

    def _note_tentative(self, task_id: str) -> None:
        self._tentative.setdefault(self.stream_of[task_id], {})[task_id] = None

    def _enqueue(self, stream_id: str, task: Task) -> None:
        task_id = task.task_id
        past = task.attempt.past
        if sum(each.end == "refused" and each.code not in REFUSED_FOR_NOW for each in past) >= REFUSALS:
            self.waiting.remove(task_id)
            self.given_up[task_id] = task
        elif task.held:
            self.waiting.remove(task_id)
            self.backoff_timers.set(task_id, None)
        elif task.not_before_ms > self.now_ms:
            self.waiting.remove(task_id)
            self.backoff_timers.set(task_id, task.not_before_ms)
        elif task_id not in self.backoff_timers.due_ms:
            self.waiting.add(task, stream_id)

    def _place(self, stream_id: str, task: Task) -> None:
        assert task.place is not None
        task_id, worker_id = task.task_id, task.place.worker_id
        location = (worker_id, task.place.incarnation)
        if self._location.get(task_id) != location:
            self._leave_worker(task_id)
            self._location[task_id] = location
            self.tasks_on.setdefault(location, {})[task_id] = None
        self.placed[task_id] = task
        attempt = task.attempt
        is_ending = task.stop_reason or attempt.stopping or attempt.recalled
        # A task that asks is in the list before it has its answer: logs of older releases have no event of
        # the task for that.
        waits = task.requested > task.taken or task_instructions.is_unacknowledged(task)
        if task.state is TaskState.PLACED or is_ending or waits:
            self.unanswered[task_id] = task
        else:
            self.unanswered.pop(task_id, None)
        known_worker, known = self.bookings.get(task_id, ("", None))
        if (
            known is None
            or known_worker != worker_id
            or not refresh_booking(known, task, self.policy.ageing_ms)
        ):
            booking = booking_of(task, self.policy.ageing_ms)
            booking.expected_ms = self.durations.expected_ms(task.task_type)
            self._book(task_id, worker_id, booking)
        self._count(task_id, task.needs.queue, stream_id)
        if (
            attempt.behind
            and task.state is TaskState.PLACED
            and not attempt.recalled
            and not task.stop_reason
        ):
            self.placed_behind.add(task, stream_id)
        else:
            self.placed_behind.remove(task_id)

    def _book(self, task_id: str, worker_id: str, booking: Booking) -> None:
        known_worker, known = self.bookings.get(task_id, ("", None))
        self.bookings[task_id] = (worker_id, booking)
        if known is None:
            self.hosts.book(worker_id, booking)
            return
        if known.token in ((0, 0), booking.token):  # the same placement: its measured peaks still hold
            booking.memory_bytes, booking.cuda_memory_bytes = (
                max(booking.memory_bytes, known.memory_bytes),
                max(booking.cuda_memory_bytes, known.cuda_memory_bytes),
            )
        self.hosts.unbook(known_worker, task_id)
        self.hosts.book(worker_id, booking)

    def _unplace(self, task_id: str) -> None:
        self.placed.pop(task_id, None)
        self.unanswered.pop(task_id, None)
        self.placed_behind.remove(task_id)
        self._leave_worker(task_id)
        worker_id, booking = self.bookings.pop(task_id, ("", None))
        if booking is not None:
            self.hosts.unbook(worker_id, task_id)
        counted = self._counted.pop(task_id, None)
        if counted is not None:
            self.running[counted[0]] -= 1
            self._running_by_stream[counted] -= 1
            if not self._running_by_stream[counted]:
                del self._running_by_stream[counted]
            self._reorder(counted)
            if counted[0] in self.full_queues:
                self._reopen_queue(counted[0])

    def _leave_worker(self, task_id: str) -> None:
        location = self._location.pop(task_id, None)
        if location is not None:
            del self.tasks_on[location][task_id]
            if not self.tasks_on[location]:
                del self.tasks_on[location]

    def _reopen_queue(self, queue: str) -> None:
        self.full_queues.discard(queue)
        for scheduling_class in self.waiting.classes.values():
            if scheduling_class.requirements.queue == queue:
                scheduling_class.scan_all = True

    def _count(self, task_id: str, queue: str, stream_id: str) -> None:
        if task_id not in self._counted:
            self._counted[task_id] = (queue, stream_id)
            self.running[queue] += 1
            self._running_by_stream[queue, stream_id] += 1
            self._reorder((queue, stream_id))

    def _reorder(self, share: tuple[str, str]) -> None:
        self.waiting.share_changed(*share)
        self.placed_behind.share_changed(*share)

    def _forget(self, task: Task) -> None:
        task_id = task.task_id
        self.waiting.remove(task_id)
        self._unplace(task_id)
        for table in (self.tasks, self.stream_of, self.given_up):
            table.pop(task_id, None)
        self.backoff_timers.set(task_id, None)
        self.time_limits.set(task_id, None)
        self.durations.learn(task.task_type, task.attempt)
        if self.peaks.learn(task.task_type, task.attempt):
            for task_queue in (self.waiting, self.placed_behind):
                for scheduling_class in task_queue.classes.values():
                    if scheduling_class.requirements.task_type == task.task_type:
                        scheduling_class.demand, scheduling_class.scan_all = None, True
