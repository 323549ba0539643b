"""Counts what this process has decided, each event once: when the log has it and it was folded as applied."""

from collections.abc import Mapping

from trackside.contracts.envelope.message import Message, Record
from trackside.contracts.fleet.fleet import WorkerLost
from trackside.contracts.tasks.tasks import (
    AttemptEnd,
    AttemptEnded,
    TaskAssigned,
    TaskPreemptionRequested,
    TaskRefused,
    TaskReturned,
)
from trackside.domain.tasks.task import Task
from trackside.telemetry.metrics import counter, exemplar, histogram


def count(record: Record, tasks: Mapping[str, Task] | None) -> None:
    """Counts an event of a decision of this process, with the tasks of its stream after it."""
    message = record.message
    match message:
        case TaskAssigned():
            task = None if tasks is None else tasks.get(message.task_id)
            if task is not None:
                _count_assignment(task, record)
        case TaskPreemptionRequested():
            counter("trackside.scheduler.returned.tasks").labels("preempted").inc()
        case AttemptEnded(end=AttemptEnd.LOST):
            counter("trackside.scheduler.returned.tasks").labels("lost").inc()
        case WorkerLost():
            counter("trackside.scheduler.lost.workers").inc()


def count_return(message: Message) -> None:
    """Counts that a worker has given a task back, for the scheduler that decides: a worker has no queue."""
    if type(message) is TaskRefused:
        counter("trackside.scheduler.returned.tasks").labels("refused").inc()
    elif type(message) is TaskReturned:
        counter("trackside.scheduler.returned.tasks").labels("recalled").inc()


def _count_assignment(task: Task, record: Record) -> None:
    counter("trackside.scheduler.assigned.tasks").inc()
    waited_s = max(0, record.append_time_ms - task.queued_at[0]) / 1000
    waits = histogram("trackside.scheduler.queue_wait.seconds")
    waits.observe(waited_s, exemplar(record.envelope.traceparent))
    if task.needs.service is not None and task.attempt.number > 1 and task.attempt.placement == 1:
        counter("trackside.scheduler.restarted_services.tasks").inc()
