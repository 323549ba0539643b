"""INV-2, 3, 5, 6 and 10 of tasks: what may follow what, read off the events that count.

The books here are kept apart from the folded state, so that a fold that lets too much count is found.
"""

from dataclasses import dataclass
from typing import cast, get_args

from trackside.contracts.message import Record
from trackside.contracts.resources import Retry
from trackside.contracts.tasks import (
    AttemptEnd,
    AttemptEnded,
    MetricReported,
    ParametersRequested,
    ParametersTaken,
    ParametersWithheld,
    TaskAccepted,
    TaskAssigned,
    TaskHeld,
    TaskInterrupted,
    TaskPreemptionRequested,
    TaskRecallRequested,
    TaskRefused,
    TaskReleased,
    TaskReturned,
    TaskStatus,
    TaskStatusChanged,
    TaskStopRequested,
    TaskSubmitted,
    TaskUnschedulable,
    TimeLimitReached,
)
from trackside.domain.task_events import TaskEvent
from trackside.verify.devices import Holding, Uses
from trackside.verify.findings import Findings, where
from trackside.verify.fleet import Lives
from trackside.verify.task_history import At, TaskBook

OfWorker = (
    TaskAccepted
    | TaskRefused
    | TaskReturned
    | TaskInterrupted
    | TaskStatusChanged
    | ParametersRequested
    | ParametersTaken
    | AttemptEnded
)
OF_WORKERS = frozenset(get_args(OfWorker))
Request = ParametersRequested | ParametersWithheld | ParametersTaken


Named = (
    TaskAssigned
    | TaskAccepted
    | TaskRefused
    | TaskReturned
    | TaskInterrupted
    | TaskStatusChanged
    | ParametersRequested
    | ParametersWithheld
    | ParametersTaken
    | MetricReported
    | AttemptEnded
    | TaskRecallRequested
    | TaskPreemptionRequested
)
"""The events that name a placement."""


@dataclass(slots=True)
class Tasks:
    """Judges the events of tasks; `take` gives True when one has ended with this event."""

    findings: Findings
    lives: Lives
    uses: Uses

    def submitted(self, books: dict[str, TaskBook], event: TaskSubmitted, record: Record) -> bool:
        """Judges a TaskSubmitted; gives True if it is a new task."""
        self.findings.checked["INV-2"] += 1
        if event.task_id in books:
            self._find("INV-2", record, f"task {event.task_id} is submitted twice")
            return False
        books[event.task_id] = book = TaskBook(event.task_id, event.needs, record.append_time_ms)
        book.trial = event.trial
        return True

    def take(self, book: TaskBook, event: TaskEvent, record: Record) -> bool:
        """Judges any other event about a task."""
        self.findings.checked["INV-6"] += 1
        if type(event) in OF_WORKERS and record.envelope.role == "worker":
            self.findings.checked["INV-5"] += 1
            if not (type(event) is AttemptEnded and event.recovered):
                self.lives.check_said(cast(OfWorker, event).incarnation, record)
        if book.has_ended:
            self._after_its_end(book, event, record)
            return False
        match event:
            case TaskStatusChanged():
                self._status(book, event, record)
            case MetricReported():
                self._reported(book, event, record)
            case TaskAssigned():
                self._assigned(book, event, record)
            case TaskAccepted():
                self._accepted(book, event, record)
            case AttemptEnded():
                self._attempt_ended(book, event, record)
            case TaskRefused() | TaskReturned():
                self._given_back(book, event, record)
            case TaskInterrupted():
                self._interrupted(book, event, record)
            case TaskStopRequested():
                self._stop_requested(book, record)
            case TaskHeld() | TaskReleased():
                self._held(book, event, record)
            case ParametersRequested() | ParametersWithheld() | ParametersTaken():
                self._request(book, event, record)
            case _:
                self._by_scheduler(book, event, record)
        return book.has_ended

    def forget(self, book: TaskBook, record: Record) -> None:
        """Ends a task that its stream has left behind."""
        self._end(book, record)

    def _by_scheduler(self, book: TaskBook, event: TaskEvent, record: Record) -> None:
        match event:
            case TaskRecallRequested():
                if self._is_current(book, event, record):
                    self._legal(book.at is At.PLACED and not book.recalled, book, event, record)
                    book.recalled = True
            case TaskPreemptionRequested():
                if self._is_current(book, event, record):
                    self._legal(not book.stop and not book.asked, book, event, record)
                    book.asked = True
            case TimeLimitReached():
                self._time_limit(book, event, record)
            case TaskUnschedulable():
                rises = event.attempt == book.attempt and event.number > book.unschedulable
                self._legal(book.at is At.QUEUED and rises, book, event, record)
                book.unschedulable = max(event.number, book.unschedulable)

    def _after_its_end(self, book: TaskBook, event: TaskEvent, record: Record) -> None:
        name = type(event).__name__
        if isinstance(event, TaskAssigned) and event.attempt > book.attempt and book.exhausted:
            message = f"task {book.task_id} is tried again, beyond its policy of retries"
            self._find("INV-10", record, message)
        else:
            self._find("INV-2", record, f"task {book.task_id} had ended before this {name}")

    def _assigned(self, book: TaskBook, event: TaskAssigned, record: Record) -> None:
        self.findings.checked["INV-3"] += 1
        self.lives.check_assigned(event.worker_id, event.incarnation, event.seen, record)
        self._in_line(book, event, record)
        if book.held:
            self._legal(False, book, event, record)
        if record.append_time_ms < book.earliest_ms:
            early_ms = book.earliest_ms - record.append_time_ms
            self._find("INV-10", record, f"task {book.task_id} is placed {early_ms} ms before it may be")
        self._vacate(book, record)
        if event.attempt != book.attempt:
            book.interrupts.clear()
        book.at, book.attempt, book.placement = At.PLACED, event.attempt, event.placement
        book.incarnation, book.reserved, book.behind = event.incarnation, event.reserved, event.behind
        book.recalled = book.asked = False
        book.requested = book.answered = book.taken = 0
        book.holding = Holding(
            task_id=event.task_id,
            worker_id=event.worker_id,
            device_ids=tuple(event.device_ids),
            life=self.lives.by_name.get(event.incarnation),
            whole=book.needs.resources.whole_device,
        )

    def _in_line(self, book: TaskBook, event: TaskAssigned, record: Record) -> None:
        name, now = _name(event), (book.attempt, book.placement)
        if (event.attempt, event.placement) <= now:
            self._find("INV-6", record, f"{name} is assigned after {_numbers(*now)}")
        elif event.attempt > book.attempt + 1:
            self._find("INV-3", record, f"{name} comes after attempt {book.attempt}")
        elif event.attempt > book.attempt:
            self._find("INV-3", record, f"{name} begins before attempt {book.attempt} has ended")
        elif event.placement > book.placement + 1:
            self._find("INV-3", record, f"{name} comes after placement {book.placement}")
        elif book.at is not At.QUEUED:
            self._find("INV-3", record, f"{name} is assigned while placement {book.placement} holds")

    def _accepted(self, book: TaskBook, event: TaskAccepted, record: Record) -> None:
        if not self._is_current(book, event, record):
            return
        if book.at is At.ACTIVE:
            self._find("INV-3", record, f"{_name(event)} is accepted twice")
            return
        book.at, book.accepted_ms, book.recalled = At.ACTIVE, record.append_time_ms, False
        holding = book.holding
        if holding is not None:
            moment = (where(record), record.append_time_ms, record.envelope.time)
            self.uses.host(holding, *moment, book.reserved.memory_bytes)
            if not book.behind:
                self.uses.devices(holding, *moment, book.reserved.cuda_memory_bytes)

    def _status(self, book: TaskBook, event: TaskStatusChanged, record: Record) -> None:
        if not self._is_current(book, event, record):
            return
        rises = event.interrupts == book.interrupted and event.status > book.reached
        self._legal(book.at is At.ACTIVE and rises, book, event, record)
        book.reached = event.status
        if event.status is TaskStatus.TRAINING and book.holding is not None and book.at is At.ACTIVE:
            moment = (where(record), record.append_time_ms, record.envelope.time)
            if book.interrupted:
                self.uses.host(book.holding, *moment, book.reserved.memory_bytes)
            self.uses.devices(book.holding, *moment, book.reserved.cuda_memory_bytes)

    def _interrupted(self, book: TaskBook, event: TaskInterrupted, record: Record) -> None:
        if not self._is_current(book, event, record):
            return
        follows = event.interrupt == book.interrupted + 1
        self._legal(book.at is At.ACTIVE and follows, book, event, record)
        book.interrupts[event.resource] += 1
        book.ends[event.resource] += 1
        book.reached, book.reserved = TaskStatus.LOADING, event.reserved
        book.steps, book.final = None, False
        if book.holding is not None:
            self.uses.leave_devices(book.holding, record.append_time_ms, record.envelope.time)

    def _reported(self, book: TaskBook, event: MetricReported, record: Record) -> None:
        if not self._is_current(book, event, record):
            return
        legal = book.at is At.ACTIVE and event.interrupts == book.interrupted
        legal = legal and event.requests == book.taken and not book.idle
        if event.kind == "FINAL":
            self._legal(legal and not book.final, book, event, record)
            book.final = True
        else:
            self._legal(legal and (book.steps is None or event.step > book.steps), book, event, record)
            book.steps = event.step

    def _request(self, book: TaskBook, event: Request, record: Record) -> None:
        if not self._is_current(book, event, record):
            return
        legal = book.at is At.ACTIVE
        match event:
            case ParametersRequested(request=number):
                self._legal(legal and book.taken + 1 == book.requested + 1 == number, book, event, record)
                book.requested = number
            case ParametersWithheld(request=number):
                self._legal(legal and book.answered < book.requested == number, book, event, record)
                book.answered = number
            case ParametersTaken(request=number):
                self._legal(legal and book.taken < book.answered == number, book, event, record)
                book.taken = number

    def _given_back(self, book: TaskBook, event: TaskRefused | TaskReturned, record: Record) -> None:
        if self._is_current(book, event, record):
            self._legal(book.at is At.PLACED, book, event, record)
            self._requeue(book, record)

    def _attempt_ended(self, book: TaskBook, event: AttemptEnded, record: Record) -> None:
        if record.envelope.role == "scheduler":
            said = event.end in (AttemptEnd.LOST, AttemptEnd.REFUSED)
            self._legal(said, book, event, record)
            if event.end is AttemptEnd.REFUSED:
                named = (event.attempt, event.placement) == (book.attempt, book.placement)
                self._legal(named and book.at is At.QUEUED, book, event, record)
                self._end(book, record)
                return
        if not self._is_current(book, event, record):
            return
        if event.end is AttemptEnd.PREEMPTED:
            self._requeue(book, record)
            return
        book.ends[event.end.value] += 1
        rule: Retry = getattr(book.needs.retry, event.end.value, None) or Retry()
        book.exhausted = book.tries(event.end) > rule.times
        if book.stop or book.idle or book.exhausted:
            self._end(book, record)
            return
        self._vacate(book, record)
        wait_s = min(rule.backoff_s * rule.factor ** (book.tries(event.end) - 1), rule.max_backoff_s)
        book.earliest_ms = record.append_time_ms + int(wait_s * (1 - rule.jitter) * 1000)
        book.queued_ms = record.append_time_ms
        book.at, book.attempt, book.placement = At.QUEUED, book.attempt + 1, 0
        book.unschedulable = 0
        book.interrupts.clear()

    def _stop_requested(self, book: TaskBook, record: Record) -> None:
        if book.stop:
            self._find("INV-10", record, f"task {book.task_id} is asked to stop twice")
        book.stop = True
        if book.at is At.QUEUED:
            self._end(book, record)

    def _held(self, book: TaskBook, event: TaskHeld | TaskReleased, record: Record) -> None:
        begins = isinstance(event, TaskHeld)
        follows = event.hold == book.holds + int(begins)
        self._legal(book.held is not begins and follows and not (begins and book.stop), book, event, record)
        book.held, book.holds = begins, event.hold
        if not begins:
            book.earliest_ms = max(book.earliest_ms, record.append_time_ms)
        elif book.at is not At.QUEUED:
            book.asked = True

    def _time_limit(self, book: TaskBook, event: TimeLimitReached, record: Record) -> None:
        waits = book.at is At.QUEUED
        limit_s = book.needs.queue_timeout_s if waits else book.needs.run_timeout_s
        since_ms = max(book.queued_ms, book.earliest_ms) if waits else book.accepted_ms
        right = event.limit == ("queue" if waits else "run") and event.attempt == book.attempt
        if limit_s is None or not right or not (waits or (book.at is At.ACTIVE and not book.asked)):
            self._legal(False, book, event, record)
        elif event.due_ms < since_ms + int(limit_s * 1000) or record.append_time_ms < event.due_ms:
            message = f"the {event.limit} limit of task {book.task_id} is reached before it was due"
            self._find("INV-10", record, message)
        book.asked = True
        if waits:
            self._end(book, record)

    def _requeue(self, book: TaskBook, record: Record) -> None:
        self._vacate(book, record)
        book.at, book.asked = At.QUEUED, False
        if book.stop or book.idle:
            self._end(book, record)

    def _end(self, book: TaskBook, record: Record) -> None:
        self._vacate(book, record)
        book.at = At.ENDED

    def _vacate(self, book: TaskBook, record: Record) -> None:
        """Ends what a placement had; a worker's clock says when, if it is its word."""
        if book.holding is not None:
            said = record.envelope.time if record.envelope.role == "worker" else ""
            self.uses.leave(book.holding, record.append_time_ms, said)
            book.holding = None
        book.reached, book.steps, book.final = TaskStatus.INIT, None, False

    def _is_current(self, book: TaskBook, event: Named, record: Record) -> bool:
        """Judges whether an event is of the placement that holds now."""
        now, named = (book.attempt, book.placement), (event.attempt, event.placement)
        by_another = type(event) in OF_WORKERS and cast(OfWorker, event).incarnation != book.incarnation
        if named == now and book.at is not At.QUEUED and not by_another:
            return True
        name = f"{type(event).__name__} of {_name(event)}"
        if named > now:
            self._find("INV-5", record, f"{name}: the last assignment is {_numbers(*now)}")
        elif named < now:
            self._find("INV-6", record, f"{name} counts after {_numbers(*now)} was there")
        elif book.at is At.QUEUED and book.placement == 0:
            self._find("INV-5", record, f"{name}, which was never assigned")
        elif book.at is At.QUEUED:
            self._find("INV-3", record, f"{name} counts after the end of that placement")
        else:
            message = f"{name} is said by another incarnation than {book.incarnation}, which has it"
            self._find("INV-7", record, message)
        return False

    def _legal(self, is_legal: bool, book: TaskBook, event: TaskEvent, record: Record) -> None:
        if not is_legal:
            place = f"{_numbers(book.attempt, book.placement)} is {book.at.name.lower()}"
            message = f"{type(event).__name__} of task {book.task_id} is not legal now: {place}"
            self._find(
                "INV-10", record, f"{message}, status {int(book.reached)}, {book.interrupted} interrupts"
            )

    def _find(self, invariant: str, record: Record, message: str) -> None:
        self.findings.add(invariant, record, message)


def _name(event: Named) -> str:
    return f"attempt {event.attempt} placement {event.placement} of task {event.task_id}"


def _numbers(attempt: int, placement: int) -> str:
    return f"attempt {attempt} placement {placement}"
