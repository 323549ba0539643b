"""Rows of the labels of streams: tags, a note, and whether a stream is archived."""

from collections.abc import Iterable

from trackside.contracts.envelope.message import Event
from trackside.contracts.streams.labels import StreamAnnotated
from trackside.domain.rows.cells import without_nul
from trackside.domain.rows.table import RowKey, RowValues, Table
from trackside.domain.streams.labels import StreamLabels
from trackside.domain.streams.stream import Stream


class LabelRows:
    """One row per stream that was annotated, also after its end."""

    table = Table(
        "stream_labels",
        ("stream_id", "kind", "tags", "note", "archived", "changed_ms"),
        key_width=1,
        changes_after_close=True,
    )

    def touched(self, stream: Stream, event: Event) -> Iterable[RowKey]:
        """Returns the stream if the event has changed its labels."""
        return ((stream.stream_id,),) if type(event) is StreamAnnotated else ()

    def keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns the stream if it was annotated."""
        return () if stream.labels is None else ((stream.stream_id,),)

    def row(self, stream: Stream, key: RowKey) -> RowValues:
        """Computes the row of the stream."""
        labels = stream.labels or StreamLabels()
        return (
            *key,
            stream.kind,
            [without_nul(tag) for tag in labels.tags],
            without_nul(labels.note),
            labels.archived,
            labels.changed_ms,
        )
