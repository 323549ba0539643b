"""Rows of children: streams that other streams have begun."""

from collections.abc import Iterable

from trackside.contracts.envelope.message import Event
from trackside.domain.rows.cells import json_text, time_or_null, without_nul
from trackside.domain.rows.table import RowKey, RowValues, Table
from trackside.domain.streams.child import KINDS
from trackside.domain.streams.stream import Stream


class ChildRows:
    """One row per child of a stream, as its parent knows it; its own rows are those of its aggregate."""

    table = Table(
        "children",
        (
            "stream_id",
            "child_id",
            "kind",
            "status",
            "requested_ms",
            "ended_ms",
            "stop_reason",
            "result",
        ),
        key_width=2,
    )

    def touched(self, stream: Stream, event: Event) -> Iterable[RowKey]:
        """Returns the child of any event about it."""
        if type(event) not in KINDS:
            return ()
        return ((stream.stream_id, event.child_id),)  # type: ignore[attr-defined]  # which KINDS says

    def keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns all children of the stream."""
        return ((stream.stream_id, child_id) for child_id in stream.children)

    def settled_keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns the children that have settled and are still kept."""
        settled = () if stream.root is None else stream.root.settled
        return [(stream.stream_id, child_id) for child_id in settled if child_id in stream.children]

    def row(self, stream: Stream, key: RowKey) -> RowValues:
        """Computes the row of a child."""
        child = stream.children[key[1]]
        return (
            *key,
            without_nul(child.kind),
            without_nul(child.state),
            child.requested_ms,
            time_or_null(child.ended_ms),
            without_nul(child.stop_reason),
            None if child.open else json_text(child.result),
        )
