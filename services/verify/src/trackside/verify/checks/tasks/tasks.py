"""INV-2, 3, 5, 6 and 10 of tasks: the legal order of events, of those that were applied, by own histories."""

from dataclasses import dataclass, replace
from typing import cast

from trackside.contracts.envelope.message import Record
from trackside.contracts.tasks.artifacts import ArtifactSaved, TaskResumed
from trackside.contracts.tasks.instructions import InstructionAcknowledged, InstructionGiven, TaskReady
from trackside.contracts.tasks.resources import Retry
from trackside.contracts.tasks.tasks import (
    AttemptAdopted,
    AttemptEnd,
    AttemptEnded,
    MetricReported,
    ParametersRequested,
    ParametersTaken,
    ParametersWithheld,
    TaskAccepted,
    TaskAssigned,
    TaskContinued,
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
from trackside.domain.checks.findings import Findings
from trackside.domain.tasks.task_events import TaskEvent
from trackside.verify.checks.tasks import running_tasks
from trackside.verify.checks.tasks.attempt_ends import check_end, check_report
from trackside.verify.checks.tasks.devices import AssignedPlace, ResourceChecks
from trackside.verify.checks.tasks.incarnations import IncarnationChecks
from trackside.verify.checks.tasks.placement_events import (
    WORKER_EVENTS,
    ParametersEvent,
    PlacementEvent,
    WorkerEvent,
)
from trackside.verify.checks.tasks.task_history import TaskHistory, TaskPhase, describe_placement
from trackside.verify.checks.tasks.task_requests import check_request
from trackside.verify.checks.tasks.worker_reports import fingerprint
from trackside.verify.checks.tasks.writers import check_worker


@dataclass(slots=True)
class TaskChecks:
    """Checks the events of tasks."""

    findings: Findings
    incarnations: IncarnationChecks
    resources: ResourceChecks

    def submitted(self, tasks: dict[str, TaskHistory], event: TaskSubmitted, record: Record) -> bool:
        """Checks a TaskSubmitted; returns True if the task is new."""
        self.findings.checked["INV-2"] += 1
        if event.task_id in tasks:
            self._add("INV-2", record, f"task {event.task_id} is submitted twice")
            return False
        tasks[event.task_id] = task = TaskHistory(event.task_id, event.needs, record.append_time_ms)
        task.submitted, task.part = event, event.part
        task.needed = {each.sha256 for each in event.inputs.values()}
        if event.checkpoint is not None:
            task.checkpoints.add((event.checkpoint.sha256, event.checkpoint.step))
            task.candidates.append((event.checkpoint.sha256, event.checkpoint.step))
        return True

    def take(self, task: TaskHistory, event: TaskEvent, record: Record) -> bool:
        """Checks any other event of a task; returns True if the task has ended with it."""
        self.findings.checked["INV-6"] += 1
        if record.envelope.role == "worker" and type(event) is not MetricReported:
            task.counted.add(fingerprint(record))
        if type(event) in WORKER_EVENTS and record.envelope.role == "worker":
            self.findings.checked["INV-5"] += 1
            if not (type(event) is AttemptEnded and event.recovered):
                adopts = task.adopted or type(event) is AttemptAdopted
                self.incarnations.check_event(cast(WorkerEvent, event).incarnation, record, adopts=adopts)
        if task.has_ended:
            self._after_end(task, event, record)
            return False
        match event:
            case TaskStatusChanged():
                self._status(task, event, record)
            case MetricReported():
                self._reported(task, event, record)
            case TaskAssigned():
                self._assigned(task, event, record)
            case TaskAccepted():
                self._accepted(task, event, record)
            case AttemptAdopted():
                self._adopted(task, event, record)
            case AttemptEnded():
                self._attempt_ended(task, event, record)
            case TaskRefused() | TaskReturned():
                self._returned(task, event, record)
            case TaskInterrupted():
                self._interrupted(task, event, record)
            case TaskStopRequested():
                self._stop_requested(task, event, record)
            case TaskHeld() | TaskReleased():
                self._held(task, event, record)
            case ParametersRequested() | ParametersWithheld() | TaskContinued() | ParametersTaken():
                self._request(task, event, record)
            case (
                ArtifactSaved() | TaskResumed() | TaskReady() | InstructionGiven() | InstructionAcknowledged()
            ):
                running_tasks.check_running(task, event, record, self.findings)
            case _:
                self._scheduler_event(task, event, record)
        return task.has_ended

    def ignored(self, task: TaskHistory | None, event: TaskAssigned, record: Record) -> None:
        """Checks an assignment without effect: it may be too late, and not too early."""
        wrong = ""
        if task is None:
            wrong = f"task {event.task_id} is assigned, which was never submitted"
        elif (event.attempt, event.placement) > (task.attempt, task.placement + 1):
            current = describe_placement(task.attempt, task.placement)
            wrong = f"{_describe(event)} is assigned after {current}, and has no effect"
        if wrong:
            self.findings.leave_open("INV-6", record, wrong)

    def _scheduler_event(self, task: TaskHistory, event: TaskEvent, record: Record) -> None:
        match event:
            case TaskRecallRequested():
                if self._is_current(task, event, record):
                    self._require(task.phase is TaskPhase.PLACED and not task.recalled, task, event, record)
                    task.recalled = True
            case TaskPreemptionRequested():
                if self._is_current(task, event, record):
                    self._require(not task.stop_requested and not task.end_requested, task, event, record)
                    task.end_requested = True
            case TimeLimitReached():
                self._time_limit(task, event, record)
            case TaskUnschedulable():
                follows = (event.attempt, event.number) == (task.attempt, task.unschedulable + 1)
                self._require(task.phase is TaskPhase.QUEUED and follows, task, event, record)
                task.unschedulable = event.number

    def _after_end(self, task: TaskHistory, event: TaskEvent, record: Record) -> None:
        name = type(event).__name__
        if isinstance(event, TaskAssigned) and event.attempt > task.attempt and task.exhausted:
            message = f"task {task.task_id} is tried again, beyond its policy of retries"
            self._add("INV-10", record, message)
        else:
            self._add("INV-2", record, f"task {task.task_id} had ended before this {name}")

    def _assigned(self, task: TaskHistory, event: TaskAssigned, record: Record) -> None:
        self.findings.checked["INV-3"] += 1
        self.incarnations.check_assigned(event.worker_id, event.incarnation, event.seen, record)
        self._check_order(task, event, record)
        self._require(not task.held, task, event, record)
        devices = task.needs.resources.devices
        if event.device_ids and not devices:
            self._add("INV-4", record, f"{_describe(event)} has {event.device_ids[0]}, it needs no device")
        self.findings.compare(record, "the number of devices", len(event.device_ids), devices)
        if record.append_time_ms < task.not_before_ms:
            early_ms = task.not_before_ms - record.append_time_ms
            self._add("INV-10", record, f"task {task.task_id} is placed {early_ms} ms before it may be")
        task.reset()
        if event.attempt != task.attempt:
            task.interrupts.clear()
        task.phase, task.attempt, task.placement = TaskPhase.PLACED, event.attempt, event.placement
        task.incarnation, task.reserved, task.behind = (event.incarnation, event.reserved, event.behind)
        task.assigned_at = record.offset
        task.recalled = task.end_requested = task.adopted = False
        task.requested = task.answered = task.taken = task.continued = 0
        task.claimed = {event.incarnation}
        running_tasks.begin_placement(task)
        task.place = AssignedPlace(
            worker_id=event.worker_id,
            incarnation=self.incarnations.by_name.get(event.incarnation),
            device_ids=tuple(event.device_ids),
            whole=task.needs.resources.whole_device,
        )

    def _check_order(self, task: TaskHistory, event: TaskAssigned, record: Record) -> None:
        name, current = _describe(event), (task.attempt, task.placement)
        if (event.attempt, event.placement) <= current:
            self._add("INV-6", record, f"{name} is assigned after {describe_placement(*current)}")
        elif event.attempt > task.attempt + 1:
            self._add("INV-3", record, f"{name} comes after attempt {task.attempt}")
        elif event.attempt > task.attempt:
            self._add("INV-3", record, f"{name} begins before attempt {task.attempt} has ended")
        elif event.placement > task.placement + 1:
            self._add("INV-3", record, f"{name} comes after placement {task.placement}")
        elif task.phase is not TaskPhase.QUEUED:
            self._add("INV-3", record, f"{name} is assigned while placement {task.placement} holds")

    def _accepted(self, task: TaskHistory, event: TaskAccepted, record: Record) -> None:
        if not self._is_current(task, event, record):
            return
        if task.phase is TaskPhase.ACTIVE:
            self._add("INV-3", record, f"{_describe(event)} is accepted twice")
            return
        task.phase, task.accepted_ms, task.recalled = TaskPhase.ACTIVE, record.append_time_ms, False
        if task.place is not None:
            device_bytes = None if task.behind else task.reserved.cuda_memory_bytes
            host_bytes = task.reserved.memory_bytes
            self.resources.start(record, task.place, host_bytes, device_bytes, begins=True)

    def _adopted(self, task: TaskHistory, event: AttemptAdopted, record: Record) -> None:
        place = task.place
        of_worker = place is not None and place.worker_id == event.worker_id
        if not of_worker or task.incarnation not in event.earlier or task.incarnation == event.incarnation:
            has_it = f"incarnation {task.incarnation or 'unknown'} of worker {place and place.worker_id}"
            message = f"{_describe(event)} is adopted by worker {event.worker_id}, and {has_it} has it"
            self._add("INV-7", record, message)
        task.incarnation, task.adopted = event.incarnation, True
        task.claimed.add(event.incarnation)
        if not self._is_current(task, event, record) or place is None:
            return
        if task.phase is TaskPhase.PLACED:
            task.phase, task.accepted_ms, task.recalled = TaskPhase.ACTIVE, record.append_time_ms, False
        task.place = replace(place, incarnation=self.incarnations.by_name.get(event.incarnation))
        waits = task.behind and task.status < TaskStatus.TRAINING
        device_bytes = None if waits else task.reserved.cuda_memory_bytes
        self.resources.start(record, task.place, task.reserved.memory_bytes, device_bytes, begins=True)

    def _status(self, task: TaskHistory, event: TaskStatusChanged, record: Record) -> None:
        if not self._is_current(task, event, record):
            return
        rises = event.interrupts == task.interrupted and event.status > task.status
        self._require(task.phase is TaskPhase.ACTIVE and rises, task, event, record)
        task.status = event.status
        trains = event.status is TaskStatus.TRAINING and task.phase is TaskPhase.ACTIVE
        if trains and task.place is not None:
            host_bytes = task.reserved.memory_bytes if task.interrupted else None
            self.resources.start(record, task.place, host_bytes, task.reserved.cuda_memory_bytes)

    def _interrupted(self, task: TaskHistory, event: TaskInterrupted, record: Record) -> None:
        if not self._is_current(task, event, record):
            return
        follows = event.interrupt == task.interrupted + 1
        self._require(task.phase is TaskPhase.ACTIVE and follows, task, event, record)
        task.interrupts[event.resource] += 1
        task.trainings += 1
        task.ends[event.resource] += 1
        task.status, task.reserved = TaskStatus.LOADING, event.reserved
        task.last_step, task.has_final, task.resumed = None, False, False

    def _reported(self, task: TaskHistory, event: MetricReported, record: Record) -> None:
        if not self._is_current(task, event, record):
            return
        check_report(task, event, record, self.findings)
        task.reported.add(fingerprint(record))
        legal = task.phase is TaskPhase.ACTIVE and event.interrupts == task.interrupted
        legal = legal and event.requests == task.taken and not task.idle
        if event.kind == "FINAL":
            self._require(legal and not task.has_final, task, event, record)
            task.has_final, task.final, task.said = True, event.value, event
        else:
            self._require(
                legal and (task.last_step is None or event.step > task.last_step), task, event, record
            )
            task.last_step, task.said = event.step, task.said if task.has_final else event
        if task.part is not None and task.part.kind == "trial":
            task.reports[record.offset] = event

    def _request(self, task: TaskHistory, event: ParametersEvent, record: Record) -> None:
        if self._is_current(task, event, record):
            self._require(check_request(task, event), task, event, record)

    def _returned(self, task: TaskHistory, event: TaskRefused | TaskReturned, record: Record) -> None:
        if self._is_current(task, event, record):
            self._require(task.phase is TaskPhase.PLACED, task, event, record)
            self._requeue(task)

    def _attempt_ended(self, task: TaskHistory, event: AttemptEnded, record: Record) -> None:
        if record.envelope.role == "scheduler":
            may_end = event.end in (AttemptEnd.LOST, AttemptEnd.REFUSED)
            self._require(may_end, task, event, record)
            if event.end is AttemptEnd.REFUSED:
                is_current = (event.attempt, event.placement) == (task.attempt, task.placement)
                self._require(is_current and task.phase is TaskPhase.QUEUED, task, event, record)
                if task.needs.service is None or task.stop_requested:
                    task.finish(event.end)
                else:
                    failures = running_tasks.service_failures(task, record)
                    self._try_again(task, record, running_tasks.SERVICE_RETRY, failures)
                return
        if not self._is_current(task, event, record):
            return
        known = self.incarnations.by_name.get(event.incarnation)
        numbered = known is not None and known.joined_sequence > 0
        check_end(task, event, record, self.findings, numbered=numbered)
        if event.end is AttemptEnd.PREEMPTED:
            self._requeue(task)
            return
        task.ends[event.end.value] += 1
        rule: Retry = getattr(task.needs.retry, event.end.value, None) or Retry()
        is_last = 0 < task.reserved.largest_limit_bytes <= event.limit_bytes
        at_limit = is_last and not task.needs.retry.at_memory_limit
        failures = task.failures_of(event.end)
        if task.needs.service is not None:
            rule, failures = running_tasks.SERVICE_RETRY, running_tasks.service_failures(task, record)
        else:
            task.exhausted = at_limit or failures > rule.times
        task.result = event.result
        if task.stop_requested or task.idle or task.exhausted:
            task.finish(event.end)
            return
        self._try_again(task, record, rule, failures)

    def _try_again(self, task: TaskHistory, record: Record, rule: Retry, failures: int = 1) -> None:
        task.reset()
        wait_s = min(rule.backoff_s * rule.factor ** (failures - 1), rule.max_backoff_s)
        task.not_before_ms = record.append_time_ms + int(wait_s * (1 - rule.jitter) * 1000)
        task.queued_ms = record.append_time_ms
        task.phase, task.attempt, task.placement = TaskPhase.QUEUED, task.attempt + 1, 0
        task.unschedulable = 0
        task.trainings += 1
        task.interrupts.clear()

    def _stop_requested(self, task: TaskHistory, event: TaskStopRequested, record: Record) -> None:
        at_limit = event.reason == "step_limit" and event.attempt is not None
        self.findings.compare(record, "the attempt", event.attempt, task.attempt if at_limit else None)
        if task.stop_requested:
            self._add("INV-10", record, f"task {task.task_id} is asked to stop twice")
        task.stop_requested, task.stop_reason = True, event.reason
        self.findings.compare(record, "an offset seen", event.seen is not None, event.reason == "assessor")
        if task.phase is TaskPhase.QUEUED:
            task.finish()

    def _held(self, task: TaskHistory, event: TaskHeld | TaskReleased, record: Record) -> None:
        begins = isinstance(event, TaskHeld)
        follows = task.held is not begins and event.hold == task.hold_number + int(begins)
        self._require(follows and not (begins and task.stop_requested), task, event, record)
        task.held, task.hold_number = begins, event.hold
        if not begins:
            task.not_before_ms = max(task.not_before_ms, record.append_time_ms)
        elif task.phase is not TaskPhase.QUEUED:
            task.end_requested = True

    def _time_limit(self, task: TaskHistory, event: TimeLimitReached, record: Record) -> None:
        waits = task.phase is TaskPhase.QUEUED
        limit_s = task.needs.queue_timeout_s if waits else task.needs.run_timeout_s
        since_ms = max(task.queued_ms, task.not_before_ms) if waits else task.accepted_ms
        right = event.limit == ("queue" if waits else "run") and event.attempt == task.attempt
        if (
            limit_s is None
            or not right
            or not (waits or (task.phase is TaskPhase.ACTIVE and not task.end_requested))
        ):
            self._require(False, task, event, record)
        elif event.due_ms < since_ms + int(limit_s * 1000) or record.append_time_ms < event.due_ms:
            message = f"the {event.limit} limit of task {task.task_id} is reached before it was due"
            self._add("INV-10", record, message)
        task.end_requested = True
        if waits:
            task.finish(AttemptEnd.TIMED_OUT_QUEUE)

    def _requeue(self, task: TaskHistory) -> None:
        task.reset()
        task.trainings += 1
        task.phase, task.end_requested = TaskPhase.QUEUED, False
        if task.stop_requested or task.idle:
            task.finish()

    def _is_current(self, task: TaskHistory, event: PlacementEvent, record: Record) -> bool:
        """Returns whether an event is of the current placement; adds a finding if not."""
        current, of_event = (task.attempt, task.placement), (event.attempt, event.placement)
        by_another = type(event) in WORKER_EVENTS and cast(WorkerEvent, event).incarnation != task.incarnation
        if of_event == current and task.phase is not TaskPhase.QUEUED and not by_another:
            check_worker(task, record, self.incarnations, self.findings)
            return True
        name = f"{type(event).__name__} of {_describe(event)}"
        if of_event > current:
            self._add("INV-5", record, f"{name}: the last assignment is {describe_placement(*current)}")
        elif of_event < current:
            self._add("INV-6", record, f"{name} counts after {describe_placement(*current)} was there")
        elif task.phase is TaskPhase.QUEUED and task.placement == 0:
            self._add("INV-5", record, f"{name}, which was never assigned")
        elif task.phase is TaskPhase.QUEUED:
            self._add("INV-3", record, f"{name} counts after the end of that placement")
        else:
            message = f"{name} is written by another incarnation than {task.incarnation}, which has it"
            self._add("INV-7", record, message)
        return False

    def _require(self, holds: bool, task: TaskHistory, event: TaskEvent, record: Record) -> None:
        if not holds:
            place = f"{describe_placement(task.attempt, task.placement)} is {task.phase.name.lower()}"
            message = f"{type(event).__name__} of task {task.task_id} is not legal now: {place}"
            message += f", status {int(task.status)}, {task.interrupted} interrupts"
            self._add("INV-10", record, message)

    def _add(self, invariant: str, record: Record, message: str) -> None:
        self.findings.add(invariant, record, message)


def _describe(event: PlacementEvent) -> str:
    return f"attempt {event.attempt} placement {event.placement} of task {event.task_id}"
