"""Rows of tasks and their attempts."""

from collections.abc import Iterable

from trackside.contracts.message import Event
from trackside.domain.stream import Stream
from trackside.domain.task import Attempt, Task, TaskState
from trackside.domain.task_events import TaskEvent
from trackside.projections.cells import json_text, measured, moment, plain, whole
from trackside.projections.projection import Key, Row, Table


class Tasks:
    """One row a task; worker and device are those of its newest attempt."""

    table = Table(
        "tasks",
        (
            "task_id",
            "stream_id",
            "task_type",
            "queue",
            "trial",
            "state",
            "attempts",
            "worker_id",
            "device_ids",
            "ending",
            "result",
            "stop_reason",
            "queued_ms",
            "ended_ms",
        ),
        key_width=2,
    )

    def touched(self, stream: Stream, event: Event) -> Iterable[Key]:
        """Gives the task of any event about it."""
        return ((event.task_id, stream.stream_id),) if isinstance(event, TaskEvent) else ()

    def keys(self, stream: Stream) -> Iterable[Key]:
        """Gives all tasks of the stream."""
        return ((task_id, stream.stream_id) for task_id in stream.tasks)

    def row(self, stream: Stream, key: Key) -> Row:
        """Computes the row of a task."""
        task = stream.tasks[key[0]]
        attempt = _placed_last(task)
        return (
            *key,
            plain(task.task_type),
            task.needs.queue,
            task.trial,
            task.state.value,
            len(task.attempts),
            attempt.worker_id or None,
            attempt.device_ids,
            None if task.end is None else task.end.value,
            json_text(task.result),
            task.stop_reason,
            task.queued_at[0],
            moment(task.ended_ms),
        )


class Attempts:
    """One row an attempt that a task has had, the one that still waits for a device included."""

    table = Table(
        "attempts",
        (
            "task_id",
            "stream_id",
            "attempt",
            "placement",
            "worker_id",
            "device_ids",
            "status",
            "ending",
            "assigned_ms",
            "accepted_ms",
            "ended_ms",
            "load_time_ms",
            "train_time_ms",
            "exit_code",
            "error_stage",
            "error_type",
            "error_message",
            "error_traceback",
        ),
        key_width=3,
    )

    def touched(self, stream: Stream, event: Event) -> Iterable[Key]:
        """Gives the newest attempt of the task, and the one before it when that has just ended."""
        if not isinstance(event, TaskEvent):
            return ()
        attempts = stream.tasks[event.task_id].attempts
        return [(event.task_id, stream.stream_id, attempt.number) for attempt in attempts[-2:]]

    def keys(self, stream: Stream) -> Iterable[Key]:
        """Gives all attempts of all tasks of the stream."""
        for task_id, task in stream.tasks.items():
            for attempt in task.attempts:
                yield (task_id, stream.stream_id, attempt.number)

    def row(self, stream: Stream, key: Key) -> Row:
        """Computes the row of an attempt."""
        attempt = stream.tasks[key[0]].attempts[key[2] - 1]
        return (
            *key,
            attempt.placement,
            attempt.worker_id or None,
            attempt.device_ids,
            attempt.status.name,
            None if attempt.end is None else attempt.end.value,
            moment(attempt.assigned_ms),
            moment(attempt.accepted_ms),
            moment(attempt.ended_ms),
            measured(attempt.load_time_ms),
            measured(attempt.train_time_ms),
            attempt.exit_code if attempt.exit_code is None else whole(attempt.exit_code),
            *_error(attempt),
        )


def _error(attempt: Attempt) -> Row:
    error = attempt.error
    if error is None:
        return (None, None, None, None)
    return (error.stage, plain(error.type), plain(error.message), plain(error.traceback))


def _placed_last(task: Task) -> Attempt:
    """The attempt whose device counts: the newest, or the one before while a retry waits."""
    waits = task.state is TaskState.QUEUED and len(task.attempts) > 1 and not task.attempt.worker_id
    return task.attempts[-2] if waits else task.attempt
