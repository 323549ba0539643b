"""Rows of batches and their groups."""

from collections.abc import Iterable

from trackside.aggregates.batch.messages import (
    GROUP,
    BatchEnded,
    BatchStarted,
    BatchStatus,
    BatchStopRequested,
    GroupEnded,
    group_name,
)
from trackside.aggregates.batch.state import OVER, Batch, batch_of
from trackside.contracts.envelope.message import Event
from trackside.contracts.envelope.parts import number_of
from trackside.contracts.streams.children import ChildEnded
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.domain.rows.cells import json_text, time_or_null, without_nul
from trackside.domain.rows.table import RowKey, RowValues, Table
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task_events import TaskEvent

_OF_BATCH = (BatchStarted, BatchStopRequested, BatchEnded)
WAITING, SKIPPED = "WAITING", "SKIPPED"
"""The states of a group that has not begun: its batch may still begin it, or never will."""


class BatchRows:
    """One row per batch; its progress is in the rows of its groups."""

    table = Table(
        "batches",
        (
            "batch_id",
            "name",
            "status",
            "groups",
            "tasks",
            "concurrency",
            "queue",
            "started_ms",
            "ended_ms",
            "stop_reason",
            "spec",
        ),
        key_width=1,
    )

    def touched(self, stream: Stream, event: Event) -> Iterable[RowKey]:
        """Returns the batch of an event about it; events of tasks don't change its row."""
        return ((stream.stream_id,),) if isinstance(event, _OF_BATCH) else ()

    def keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns the stream's batch, if it has one."""
        return () if batch_of(stream) is None else ((stream.stream_id,),)

    def row(self, stream: Stream, key: RowKey) -> RowValues:
        """Computes the row of the batch."""
        batch = batch_of(stream)
        assert batch is not None
        return (
            *key,
            without_nul(batch.spec.name),
            batch.status.value,
            len(batch.spec.groups),
            sum(len(group.tasks) for group in batch.spec.groups),
            batch.spec.concurrency,
            batch.spec.queue,
            batch.started_ms,
            time_or_null(batch.ended_ms),
            without_nul(batch.stop_reason),
            json_text(batch.spec),
        )


class GroupRows:
    """One row per group of a batch, numbered from 1, with tasks and children counted by their ends."""

    table = Table(
        "groups",
        (
            "batch_id",
            "group_number",
            "name",
            "status",
            "device",
            "tasks",
            "children",
            "submitted",
            "open",
            "finished",
            "ends",
        ),
        key_width=2,
    )

    def touched(self, stream: Stream, event: Event) -> Iterable[RowKey]:
        """Returns the group of a task or child, one that ended and the next one, or all groups of a batch."""
        batch = batch_of(stream)
        if batch is None:
            return ()
        if isinstance(event, _OF_BATCH):
            return self.keys(stream)
        if isinstance(event, TaskEvent):
            group = number_of(stream.tasks[event.task_id].part, GROUP)
            return () if group is None else ((stream.stream_id, group + 1),)
        if isinstance(event, ChildEnded):
            return ((stream.stream_id, batch.group + 1),)
        if isinstance(event, GroupEnded):
            last = min(event.group + 2, len(batch.spec.groups))
            return ((stream.stream_id, number) for number in range(event.group + 1, last + 1))
        return ()

    def keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns all groups of the stream's batch."""
        batch = batch_of(stream)
        groups = 0 if batch is None else len(batch.spec.groups)
        return ((stream.stream_id, number) for number in range(1, groups + 1))

    def row(self, stream: Stream, key: RowKey) -> RowValues:
        """Computes the row of a group."""
        batch, at = batch_of(stream), key[1] - 1
        assert batch is not None
        group = batch.spec.groups[at]
        now = at == batch.group
        ends = batch.ended[at] if at < batch.group else batch.ends if now else {}
        return (
            *key,
            without_nul(group_name(group, at)),
            _status(batch, at),
            without_nul(group.device) or None,
            len(group.tasks),
            len(group.children),
            len(group.tasks) if at < batch.group else batch.submitted if now else 0,
            len(batch.open) if now else 0,
            ends.get(AttemptEnd.FINISHED.value, 0),
            json_text(ends),
        )


def _status(batch: Batch, at: int) -> str:
    if at < batch.group:
        return BatchStatus.DONE.value
    if at == batch.group:
        return batch.status.value
    going_on = batch.status not in OVER and batch.status is not BatchStatus.STOPPING
    return WAITING if going_on else SKIPPED
