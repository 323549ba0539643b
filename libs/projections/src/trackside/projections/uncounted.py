"""Rows of reported values that had no effect: late, repeated, of what is unknown. None is lost silently."""

from collections.abc import Iterable
from typing import Literal

from trackside.contracts.message import Record
from trackside.contracts.tasks import MetricReported
from trackside.domain.stream import Stream
from trackside.domain.task import TaskState
from trackside.projections.cells import plain, whole
from trackside.projections.projection import Row, Table

Reason = Literal["foreign", "late", "orphan", "stale", "repeat"]


def reason_of(stream: Stream, record: Record) -> Reason | None:
    """Says why the report of a record had no effect on its stream; None for what is no report.

    `orphan`: there is no such task; `late`: its task or the whole stream is over; `stale`: it is of an
    attempt, a placement or a training that is over; `repeat`: a FINAL value after the first, or a step that
    doesn't rise; `foreign`: no worker wrote it. The same for all readers, at any time: a stream that is over
    may have been shrunk.
    """
    event = record.message
    if not isinstance(event, MetricReported):
        return None
    if record.envelope.role not in event.written_by:
        return "foreign"
    if stream.closed:
        return "late"
    task = stream.tasks.get(event.task_id)
    if task is None:
        return "orphan"
    if task.state is TaskState.ENDED or task.idle:
        return "late"
    attempt = task.attempt
    said = (event.attempt, event.placement, event.interrupts, event.requests)
    is_current = said == (attempt.number, attempt.placement, attempt.interrupted, task.taken)
    return "repeat" if is_current and task.state is TaskState.ACTIVE else "stale"


class UncountedMetrics:
    """One row a report that had no effect, by its place in the log."""

    table = Table(
        "uncounted_metrics",
        (
            "log_partition",
            "log_offset",
            "stream_id",
            "task_id",
            "attempt",
            "placement",
            "kind",
            "step",
            "value",
            "non_finite",
            "reason",
            "reported_ms",
        ),
        key_width=2,
        insert_only=True,
    )

    def rows(self, stream: Stream, record: Record) -> Iterable[Row]:
        """Gives the row of a record that was not applied, if it is a report."""
        event, reason = record.message, reason_of(stream, record)
        if reason is None or not isinstance(event, MetricReported):
            return ()
        row = (
            record.partition,
            record.offset,
            plain(record.envelope.stream),
            plain(event.task_id),
            whole(event.attempt),
            whole(event.placement),
            event.kind,
            whole(event.step),
            event.value,
            event.non_finite,
            reason,
            record.append_time_ms,
        )
        return (row,)
