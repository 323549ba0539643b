"""Rows of repeats."""

from collections.abc import Iterable

from tests.aggregates.repeat.state import repeat_of
from trackside.contracts.envelope.message import Event
from trackside.domain.rows.cells import json_text, time_or_null, without_nul
from trackside.domain.rows.table import RowKey, RowValues, Table
from trackside.domain.streams.stream import Stream


class RepeatRows:
    """One row per repeat."""

    table = Table(
        "repeats",
        ("repeat_id", "name", "status", "times", "ended", "finished", "started_ms", "ended_ms", "spec"),
        key_width=1,
    )

    def touched(self, stream: Stream, event: Event) -> Iterable[RowKey]:
        return self.keys(stream)

    def keys(self, stream: Stream) -> Iterable[RowKey]:
        return () if repeat_of(stream) is None else ((stream.stream_id,),)

    def row(self, stream: Stream, key: RowKey) -> RowValues:
        repeat = repeat_of(stream)
        assert repeat is not None
        return (
            *key,
            without_nul(repeat.spec.name),
            repeat.status.value,
            repeat.times,
            repeat.ended,
            repeat.finished,
            repeat.started_ms,
            time_or_null(repeat.ended_ms),
            json_text(repeat.spec),
        )
