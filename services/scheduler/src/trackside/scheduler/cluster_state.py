"""All tasks and hosts as the scheduler sees them, kept up to date task by task. Pure.

What was decided and isn't folded yet counts as if it was: `assign`, `preempt` and `recall` change it
at once, and `settle` puts the folded truth back where the log had another opinion.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from trackside.contracts.tasks import AttemptEnd
from trackside.domain.task import Task, TaskState
from trackside.scheduler.estimates import Peaks, Want, want_of
from trackside.scheduler.hosts import Hosts
from trackside.scheduler.occupancy import Booking, Host, booking_of, kept_up
from trackside.scheduler.placement import Candidate, Rules
from trackside.scheduler.queue import SchedulingClass, TaskQueue
from trackside.scheduler.requirements import Requirements, level_of, waiting_since_ms
from trackside.scheduler.timers import Timers
from trackside.scheduler.unschedulable import most_of, never_fits

REFUSALS = 10
"""A task that was refused so often in one attempt is given up."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What an operator has chosen, in bytes and ms. `hold_after_ms`: how long a task may be overtaken.

    `lease_s` is only told to workers.
    """

    rules: Rules = field(default_factory=Rules)
    ageing_ms: int = 600_000
    hold_after_ms: int = 60_000
    look_ahead: int = 1
    queue_limits: dict[str, int] = field(default_factory=dict)
    defaults: tuple[int, int] = (2 * 10**9, 2 * 10**9)
    lease_s: float = 10.0


class ClusterState:
    """Waiting tasks in a queue, placed ones on hosts; `stream_of` gives the stream of each."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy or Policy()
        self.tasks: dict[str, Task] = {}
        self.stream_of: dict[str, str] = {}
        self.placed: dict[str, Task] = {}
        self.owing: dict[str, Task] = {}
        self.on: dict[tuple[str, str], dict[str, None]] = {}
        self.given_up: dict[str, Task] = {}
        self.waiting = TaskQueue(self.policy.ageing_ms)
        self.behind = TaskQueue(self.policy.ageing_ms)
        self.hosts = Hosts(self.policy.rules.gates)
        self.peaks = Peaks()
        self.later = Timers()
        self.limits = Timers()
        self.running: Counter[str] = Counter()
        self.limited: set[str] = set()
        self.bookings: dict[str, tuple[str, Booking]] = {}
        self.now_ms = 0
        self._where: dict[str, tuple[str, str]] = {}
        self._tentative: dict[str, dict[str, None]] = {}
        self._counted: dict[str, tuple[str, str]] = {}
        self._shares: Counter[tuple[str, str]] = Counter()
        self.waiting.share = self.behind.share = self._share

    def update(self, stream_id: str, task: Task) -> None:
        """Takes in what a task has become."""
        task_id = task.task_id
        if stream_id in self._tentative:
            self._tentative[stream_id].pop(task_id, None)
        if task.state is TaskState.ENDED:
            self._forget(task)
            return
        self.tasks[task_id] = task
        self.stream_of[task_id] = stream_id
        self.limits.set(task_id, task.due_ms)
        if task.state is TaskState.QUEUED:
            self._unplace(task_id)
            self._enqueue(stream_id, task)
        else:
            self.waiting.remove(task_id)
            self.later.set(task_id, None)
            self._place(stream_id, task)

    def assign(self, task: Task, candidate: Candidate, requirements: Requirements, behind: bool) -> None:
        """Counts a task in where it is going to be."""
        task_id, stream_id = task.task_id, self.stream_of[task.task_id]
        waited_ms = self.now_ms - waiting_since_ms(task)
        booking = candidate.booking(task_id, requirements, behind=behind)
        booking.level = level_of(task.needs.priority, waited_ms, self.policy.ageing_ms)
        booking.priority = task.needs.priority
        booking.assigned_ms = self.now_ms
        self.waiting.remove(task_id)
        candidate.host.book(booking)
        self.bookings[task_id] = (candidate.host.worker.worker_id, booking)
        self._count(task_id, task.needs.queue, stream_id)
        self._tentative.setdefault(stream_id, {})[task_id] = None

    def preempt(self, booking: Booking) -> None:
        """Counts a task as one that is going to leave."""
        booking.stopping = True
        self._note_tentative(booking.task_id)

    def recall(self, booking: Booking) -> None:
        """Counts a task as one that is going to be given back."""
        booking.recalled = True
        self.behind.remove(booking.task_id)
        self._note_tentative(booking.task_id)

    def settle(self, is_busy: Callable[[str], bool]) -> None:
        """Puts back what was decided and isn't in the log, for streams with nothing on its way."""
        for stream_id in [name for name in self._tentative if not is_busy(name)]:
            for task_id in self._tentative.pop(stream_id):
                if (task := self.tasks.get(task_id)) is not None:
                    self._unplace(task_id)
                    self.update(stream_id, task)

    def advance(self, now_ms: int) -> None:
        """Lets time pass: what was to wait for a moment may be placed now."""
        self.now_ms = now_ms
        self.hosts.advance(now_ms)
        for task_id in self.later.pop_due(now_ms):
            task = self.tasks.get(task_id)
            if task is not None and task.state is TaskState.QUEUED and task_id not in self.bookings:
                self.waiting.add(task, self.stream_of[task_id])

    def want(self, scheduling_class: SchedulingClass) -> Want:
        """Gives what the tasks of a class want, by what is known now."""
        if scheduling_class.want is None:
            most = most_of(self.hosts.open, scheduling_class.requirements)
            scheduling_class.want = want_of(
                scheduling_class.requirements, self.peaks, self.policy.defaults, most
            )
        return scheduling_class.want

    def fleet_changed(self) -> None:
        """Has every class look at every host again, and be judged again."""
        judged = self.hosts.judged(self.now_ms)
        for task_queue in (self.waiting, self.behind):
            for scheduling_class in task_queue.classes.values():
                self.judge(scheduling_class, judged)
                scheduling_class.fresh, scheduling_class.want = True, None

    def report_again(self) -> None:
        """Has it reported again of each class why it can't run, where the log doesn't say so."""
        for scheduling_class in self.waiting.classes.values():
            scheduling_class.unsaid = True

    def judge(self, scheduling_class: SchedulingClass, judged: Sequence[Host]) -> None:
        """Finds out whether any host could ever run the tasks of a class."""
        never = never_fits(scheduling_class.requirements, judged)
        if never != scheduling_class.never:
            scheduling_class.never, scheduling_class.unsaid = never, True
        scheduling_class.judged = True

    def is_waiting(self, task_id: str) -> bool:
        """Says whether a task is behind another one that still has its device."""
        worker_id, booking = self.bookings[task_id]
        host = self.hosts.by_id.get(worker_id)
        return host is not None and host.is_waiting(booking)

    def is_limited(self, queue: str) -> bool:
        """Says whether a queue has as many tasks placed as it may."""
        limit = self.policy.queue_limits.get(queue)
        if limit is None or self.running[queue] < limit:
            return False
        self.limited.add(queue)
        return True

    def _share(self, queue: str, stream: str) -> int:
        return self._shares[queue, stream]

    def _note_tentative(self, task_id: str) -> None:
        self._tentative.setdefault(self.stream_of[task_id], {})[task_id] = None

    def _enqueue(self, stream_id: str, task: Task) -> None:
        task_id = task.task_id
        refused = sum(past.end == "refused" for past in task.attempt.past)
        if refused >= REFUSALS:
            self.waiting.remove(task_id)
            self.given_up[task_id] = task
        elif task.held:
            self.waiting.remove(task_id)
            self.later.set(task_id, None)
        elif task.not_before_ms > self.now_ms:
            self.waiting.remove(task_id)
            self.later.set(task_id, task.not_before_ms)
        elif task_id not in self.later.at:
            self.waiting.add(task, stream_id)

    def _place(self, stream_id: str, task: Task) -> None:
        assert task.place is not None
        task_id, worker_id = task.task_id, task.place.worker_id
        where = (worker_id, task.place.incarnation)
        if self._where.get(task_id) != where:
            self._leave_worker(task_id)
            self._where[task_id] = where
            self.on.setdefault(where, {})[task_id] = None
        self.placed[task_id] = task
        attempt = task.attempt
        to_end = task.stop_reason or attempt.stopping or attempt.recalled
        if task.state is TaskState.PLACED or to_end or task.answered > task.taken:
            self.owing[task_id] = task
        else:
            self.owing.pop(task_id, None)
        known_worker, known = self.bookings.get(task_id, ("", None))
        if known is None or known_worker != worker_id or not kept_up(known, task, self.policy.ageing_ms):
            self._book(task_id, worker_id, booking_of(task, self.policy.ageing_ms))
        self._count(task_id, task.needs.queue, stream_id)
        if (
            attempt.behind
            and task.state is TaskState.PLACED
            and not attempt.recalled
            and not task.stop_reason
        ):
            self.behind.add(task, stream_id)
        else:
            self.behind.remove(task_id)

    def _book(self, task_id: str, worker_id: str, booking: Booking) -> None:
        known_worker, known = self.bookings.get(task_id, ("", None))
        self.bookings[task_id] = (worker_id, booking)
        if known is None:
            self.hosts.book(worker_id, booking)
            return
        if known.token in ((0, 0), booking.token):  # the same placement: what was seen of it still holds
            booking.memory, booking.cuda = max(booking.memory, known.memory), max(booking.cuda, known.cuda)
        self.hosts.unbook(known_worker, task_id)
        self.hosts.book(worker_id, booking)

    def _unplace(self, task_id: str) -> None:
        self.placed.pop(task_id, None)
        self.owing.pop(task_id, None)
        self.behind.remove(task_id)
        self._leave_worker(task_id)
        worker_id, booking = self.bookings.pop(task_id, ("", None))
        if booking is not None:
            self.hosts.unbook(worker_id, task_id)
        counted = self._counted.pop(task_id, None)
        if counted is not None:
            self.running[counted[0]] -= 1
            self._shares[counted] -= 1
            if not self._shares[counted]:
                del self._shares[counted]
            self._reorder(counted)
            if counted[0] in self.limited:
                self._unlimit(counted[0])

    def _leave_worker(self, task_id: str) -> None:
        where = self._where.pop(task_id, None)
        if where is not None:
            del self.on[where][task_id]
            if not self.on[where]:
                del self.on[where]

    def _unlimit(self, queue: str) -> None:
        self.limited.discard(queue)
        for scheduling_class in self.waiting.classes.values():
            if scheduling_class.requirements.queue == queue:
                scheduling_class.fresh = True

    def _count(self, task_id: str, queue: str, stream_id: str) -> None:
        if task_id not in self._counted:
            self._counted[task_id] = (queue, stream_id)
            self.running[queue] += 1
            self._shares[queue, stream_id] += 1
            self._reorder((queue, stream_id))

    def _reorder(self, share: tuple[str, str]) -> None:
        self.waiting.shared(*share)
        self.behind.shared(*share)

    def _forget(self, task: Task) -> None:
        task_id = task.task_id
        self.waiting.remove(task_id)
        self._unplace(task_id)
        for table in (self.tasks, self.stream_of, self.given_up):
            table.pop(task_id, None)
        self.later.set(task_id, None)
        self.limits.set(task_id, None)
        if task.end is AttemptEnd.FINISHED and self.peaks.learn(task.task_type, task.attempt):
            for task_queue in (self.waiting, self.behind):
                for scheduling_class in task_queue.classes.values():
                    if scheduling_class.requirements.task_type == task.task_type:
                        scheduling_class.want, scheduling_class.fresh = None, True
