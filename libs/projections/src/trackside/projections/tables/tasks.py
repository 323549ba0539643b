"""Rows of tasks, their attempts and placements."""

from collections.abc import Iterable, Iterator

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Event
from trackside.contracts.envelope.parts import number_of
from trackside.contracts.envelope.trace_context import trace_id
from trackside.contracts.tasks.artifacts import CheckpointReference
from trackside.contracts.tasks.resources import Needs
from trackside.domain.rows.cells import bigint, duration_or_null, json_text, time_or_null, without_nul
from trackside.domain.rows.table import RowKey, RowValues, Table
from trackside.domain.streams.stream import Stream, forgotten_attempts, settled_part
from trackside.domain.tasks.task import Attempt, Task, TaskState
from trackside.domain.tasks.task_instructions import is_ready


class TaskRows:
    """One row per task; worker and devices are those of its newest attempt."""

    table = Table(
        "tasks",
        (
            "task_id",
            "stream_id",
            "task_type",
            "queue",
            "trial",
            "group_number",
            "name",
            "state",
            "attempts",
            "worker_id",
            "device_ids",
            "ending",
            "objective",
            "result",
            "stop_reason",
            "priority",
            "preempt",
            "exclusive",
            "kind",
            "devices",
            "fixed_device",
            "whole_device",
            "estimate_memory_bytes",
            "estimate_cuda_memory_bytes",
            "queue_timeout_s",
            "run_timeout_s",
            "unschedulable",
            "queued_ms",
            "not_before_ms",
            "ended_ms",
            "service",
            "ready_ms",
            "ready",
            "instruction_number",
            "instruction_body",
            "acknowledged_number",
            "acknowledged_ok",
            "acknowledged_detail",
            "parameters",
            "trace_id",
        ),
        key_width=2,
    )

    def touched(self, stream: Stream, event: Event) -> Iterable[RowKey]:
        """Returns the task that an event is about, or those that an event of its aggregate has changed."""
        return ((task_id, stream.stream_id) for task_id in AGGREGATES.changed_tasks(stream, event))

    def keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns all tasks of the stream."""
        return ((task_id, stream.stream_id) for task_id in stream.tasks)

    def settled_keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns the tasks that have settled."""
        return self.keys(settled_part(stream))

    def row(self, stream: Stream, key: RowKey) -> RowValues:
        """Computes the row of a task."""
        task = stream.tasks[key[0]]
        attempt, group = _placed_last(task), number_of(task.part, "group")
        return (
            *key,
            without_nul(task.task_type),
            task.needs.queue,
            number_of(task.part, "trial"),
            None if group is None else group + 1,
            None if task.part is None else task.part.name or None,
            task.state.value,
            task.attempt.number,
            attempt.worker_id or None,
            attempt.device_ids,
            None if task.end is None else task.end.value,
            _objective(task),
            json_text(task.result),
            task.stop_reason,
            *_needs(task.needs),
            without_nul(task.unschedulable) or None,
            task.queued_at[0],
            time_or_null(task.not_before_ms),
            time_or_null(task.ended_ms),
            task.needs.service is not None,
            *_readiness(task),
            *_instructions(task),
            json_text(task.parameters),
            trace_id(task.traceparent),
        )


class AttemptRows:
    """One row an attempt that a task has had, the one that still waits for a device included."""

    table = Table(
        "attempts",
        (
            "task_id",
            "stream_id",
            "attempt",
            "placement",
            "worker_id",
            "started_by",
            "adopted_by",
            "device_ids",
            "behind",
            "status",
            "ending",
            "assigned_ms",
            "accepted_ms",
            "ended_ms",
            "load_time_ms",
            "train_time_ms",
            "reserved_memory_bytes",
            "reserved_cuda_memory_bytes",
            "estimated_by",
            "peak_memory_bytes",
            "peak_cuda_memory_bytes",
            "interrupts",
            "resumed_step",
            "resumed_from",
            "leftovers",
            "exit_code",
            "error_stage",
            "error_type",
            "error_message",
            "error_traceback",
        ),
        key_width=3,
    )

    def touched(self, stream: Stream, event: Event) -> Iterable[RowKey]:
        """Returns the newest attempt of each changed task, and the one before: it may have just ended."""
        return ((task_id, stream.stream_id, attempt.number) for task_id, attempt in _changed(stream, event))

    def keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns all attempts of all tasks of the stream."""
        for task_id, task in stream.tasks.items():
            for attempt in task.attempts:
                yield (task_id, stream.stream_id, attempt.number)

    def settled_keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns all attempts of the tasks that have settled, and the old ones of services."""
        for task_id, attempt in forgotten_attempts(stream):
            yield (task_id, stream.stream_id, attempt.number)

    def row(self, stream: Stream, key: RowKey) -> RowValues:
        """Computes the row of an attempt."""
        attempt = _attempt(stream.tasks[key[0]], key[2])
        return (
            *key,
            attempt.placement,
            attempt.worker_id or None,
            *_incarnations(attempt),
            attempt.device_ids,
            attempt.behind,
            attempt.status.name,
            None if attempt.end is None else attempt.end.value,
            time_or_null(attempt.assigned_ms),
            time_or_null(attempt.accepted_ms),
            time_or_null(attempt.ended_ms),
            duration_or_null(attempt.load_time_ms),
            duration_or_null(attempt.train_time_ms),
            bigint(attempt.reserved.memory_bytes),
            bigint(attempt.reserved.cuda_memory_bytes),
            attempt.reserved.estimated_by if attempt.assigned_ms else None,
            bigint(attempt.peak_memory_bytes) or None,
            bigint(attempt.peak_cuda_memory_bytes) or None,
            attempt.interrupted,
            *_resumed(attempt.resumed),
            [without_nul(name) for name in attempt.leftovers],
            attempt.exit_code if attempt.exit_code is None else bigint(attempt.exit_code),
            *_error(attempt),
        )


class PlacementRows:
    """One row per placement: an assignment of an attempt, even if it was refused, returned or preempted."""

    table = Table(
        "placements",
        (
            "task_id",
            "stream_id",
            "attempt",
            "placement",
            "worker_id",
            "device_ids",
            "assigned_ms",
            "accepted_ms",
            "ended_ms",
            "ending",
            "code",
            "message",
            "resumed_step",
            "resumed_from",
        ),
        key_width=4,
    )

    def touched(self, stream: Stream, event: Event) -> Iterable[RowKey]:
        """Returns the last placement of the newest attempt of each changed task, and of the one before it."""
        return (
            (task_id, stream.stream_id, attempt.number, attempt.placement)
            for task_id, attempt in _changed(stream, event)
            if attempt.placement
        )

    def keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns all placements of all attempts of all tasks of the stream."""
        for task_id, task in stream.tasks.items():
            for attempt in task.attempts:
                for placement in range(1, attempt.placement + 1):
                    yield (task_id, stream.stream_id, attempt.number, placement)

    def settled_keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns all placements of the tasks that have settled, and the old ones of services."""
        for task_id, attempt in forgotten_attempts(stream):
            for placement in range(1, attempt.placement + 1):
                yield (task_id, stream.stream_id, attempt.number, placement)

    def row(self, stream: Stream, key: RowKey) -> RowValues:
        """Computes the row of a placement; former placements are in the attempt's past."""
        attempt = _attempt(stream.tasks[key[0]], key[2])
        if key[3] <= len(attempt.past):
            past = attempt.past[key[3] - 1]
            return (
                *key,
                past.worker_id,
                past.device_ids,
                past.assigned_ms,
                time_or_null(past.accepted_ms),
                time_or_null(past.ended_ms),
                past.end,
                past.code or None,
                without_nul(past.message) or None,
                *_resumed(past.resumed),
            )
        return (
            *key,
            attempt.worker_id,
            attempt.device_ids,
            attempt.assigned_ms,
            time_or_null(attempt.accepted_ms),
            time_or_null(attempt.ended_ms),
            None if attempt.end is None else attempt.end.value,
            None,
            None,
            *_resumed(attempt.resumed),
        )


def _changed(stream: Stream, event: Event) -> Iterator[tuple[str, Attempt]]:
    """Yields the last two attempts of the tasks that an event has changed, with the ids of these."""
    for task_id in AGGREGATES.changed_tasks(stream, event):
        for attempt in stream.tasks[task_id].attempts[-2:]:
            yield task_id, attempt


def _attempt(task: Task, number: int) -> Attempt:
    """Returns an attempt by its number: of a service, the first ones may be forgotten."""
    return task.attempts[number - task.attempts[0].number]


def _needs(needs: Needs) -> RowValues:
    wanted = needs.resources
    return (
        needs.priority,
        needs.preempt,
        needs.exclusive,
        wanted.kind,
        wanted.devices,
        without_nul(wanted.device) or None,
        wanted.whole_device,
        wanted.estimate_memory,
        wanted.estimate_cuda_memory,
        needs.queue_timeout_s,
        needs.run_timeout_s,
    )


def _readiness(task: Task) -> RowValues:
    """Returns since when a service is ready, and what it said of that; nothing unless it is."""
    if not is_ready(task):
        return (None, None)
    return (task.attempt.ready_ms, json_text(task.attempt.ready))


def _instructions(task: Task) -> RowValues:
    """Returns the newest instruction, and the one that the newest placement has acknowledged."""
    given = task.instruction
    newest = (None, None) if given is None else (bigint(given.number), json_text(given.body))
    if not task.acknowledged or task.acknowledgement is None:
        return (*newest, None, None, None)
    ok, detail = task.acknowledgement
    return (*newest, bigint(task.acknowledged), ok, json_text(detail))


def _resumed(checkpoint: CheckpointReference | None) -> RowValues:
    """Returns the step at which a training resumed, and the artifact, or the URI, that it resumed from."""
    if checkpoint is None:
        return (None, None)
    return (bigint(checkpoint.step), without_nul(checkpoint.source or checkpoint.uri))


def _objective(task: Task) -> float | None:
    """Returns the objective value of a task: the FINAL one, else the last one."""
    if task.has_final:
        return task.final
    return task.reports[-1][1] if task.reports else None


def _incarnations(attempt: Attempt) -> RowValues:
    """Returns which incarnation started the newest placement, and which have adopted it."""
    names = [without_nul(name) for name in attempt.incarnations]
    return (names[0] if names else None, names[1:])


def _error(attempt: Attempt) -> RowValues:
    error = attempt.error
    if error is None:
        return (None, None, None, None)
    return (error.stage, without_nul(error.type), without_nul(error.message), without_nul(error.traceback))


def _placed_last(task: Task) -> Attempt:
    """Returns the attempt whose devices are shown: the newest, or the one before while a retry waits."""
    waits = task.state is TaskState.QUEUED and len(task.attempts) > 1 and not task.attempt.worker_id
    return task.attempts[-2] if waits else task.attempt
