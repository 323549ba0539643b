"""Rows of reported values that had no effect: late, repeated, of an unknown task. None is lost silently."""

from collections.abc import Iterable
from typing import Literal

from trackside.contracts.envelope.message import Record
from trackside.contracts.tasks.tasks import MetricReported
from trackside.domain.rows.cells import bigint, without_nul
from trackside.domain.rows.table import RowValues, Table
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.reports import IgnoredReason, why_ignored

Reason = IgnoredReason | Literal["foreign", "orphan"]


def ignored_reason(stream: Stream, record: Record) -> Reason | None:
    """Returns why a report that was not applied had no effect; None if the record is not a report.

    `foreign`: no worker wrote it; `orphan`: there is no such task; `late`: also if the whole stream is over.
    The rest says the fold of its task. All readers get the same reason at any time: they may have forgotten
    the task, or most of an ended stream.
    """
    event = record.message
    if not isinstance(event, MetricReported):
        return None
    if record.envelope.role not in event.written_by:
        return "foreign"
    task = None if stream.closed else stream.tasks.get(event.task_id)
    if task is None:
        return "late" if stream.is_settled(event.task_id) else "orphan"
    return why_ignored(task, event) or "repeat"  # it would count, but came with a decision that had no effect


class IgnoredReportRows:
    """One row per report that had no effect, keyed by its partition and offset."""

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
    kinds = frozenset({MetricReported})

    def rows(self, stream: Stream, record: Record) -> Iterable[RowValues]:
        """Returns the row of a record that was not applied, if it is a report."""
        if stream.forgotten is not None:  # no rows of it are added any more
            return ()
        event, reason = record.message, ignored_reason(stream, record)
        if reason is None or not isinstance(event, MetricReported):
            return ()
        row = (
            record.partition,
            record.offset,
            without_nul(record.envelope.stream),
            without_nul(event.task_id),
            bigint(event.attempt),
            bigint(event.placement),
            event.kind,
            bigint(event.step),
            event.value,
            event.non_finite,
            reason,
            record.append_time_ms,
        )
        return (row,)
