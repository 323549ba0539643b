"""Rows of the streams that were forgotten: all that is known of them."""

from collections.abc import Iterable

from trackside.contracts.envelope.message import Event
from trackside.contracts.streams.forgetting import StreamForgotten
from trackside.domain.rows.cells import bigint, json_text, without_nul
from trackside.domain.rows.table import RowKey, RowValues, Table
from trackside.domain.streams.stream import Stream


class ForgottenStreamRows:
    """One row per stream that was forgotten, with what its event says of it."""

    table = Table(
        "forgotten_streams",
        (
            "stream_id",
            "log_offset",
            "forgotten_ms",
            "reason",
            "kind",
            "status",
            "unit",
            "ended",
            "total",
            "ends",
            "started_ms",
            "ended_ms",
        ),
        key_width=1,
        changes_after_close=True,
    )

    def touched(self, stream: Stream, event: Event) -> Iterable[RowKey]:
        """Returns the stream if it was forgotten."""
        return ((stream.stream_id,),) if type(event) is StreamForgotten else ()

    def keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns the stream if it was forgotten."""
        return () if stream.forgotten is None else ((stream.stream_id,),)

    def row(self, stream: Stream, key: RowKey) -> RowValues:
        """Computes the row of the stream."""
        found = stream.forgotten
        assert found is not None  # or it has no key
        return (
            *key,
            found.offset,
            found.forgotten_ms,
            without_nul(found.reason),
            without_nul(found.kind),
            without_nul(found.status),
            without_nul(found.unit),
            bigint(found.ended),
            None if found.total is None else bigint(found.total),
            json_text(found.ends),
            bigint(found.started_ms) or None,
            bigint(found.ended_ms) or None,
        )
