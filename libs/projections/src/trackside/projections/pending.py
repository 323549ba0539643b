"""The changes of a batch of one partition: the keys touched, turned into rows when the batch ends."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from trackside.contracts.message import Event, Record
from trackside.domain.stream import Stream
from trackside.domain.table import (
    Projection,
    RecordProjection,
    RowKey,
    RowValues,
    Table,
    TableWrite,
)


@dataclass(slots=True)
class PendingChanges:
    """The changes of one partition from offset `base` up to `end`, which is not included.

    `streams` are those with an event among them.
    """

    projections: tuple[Projection[Any], ...]
    of_records: tuple[RecordProjection, ...]
    base: int
    end: int
    of_ignored: tuple[RecordProjection, ...] = ()
    touched: dict[int, dict[RowKey, Any]] = field(default_factory=dict)
    record_rows: dict[str, tuple[Table, dict[RowKey, RowValues]]] = field(default_factory=dict)
    streams: set[str] = field(default_factory=set)

    def note(self, state: Any, event: Event) -> None:
        """Records the keys of rows that may have changed by an event that was applied to `state`."""
        for number, projection in enumerate(self.projections):
            for key in projection.touched(state, event):
                self.touched.setdefault(number, {})[key] = state

    def note_record(self, stream: Stream, record: Record) -> None:
        """Records the rows computed from a record itself."""
        self._note(self.of_records, stream, record)

    def note_ignored(self, stream: Stream, record: Record) -> None:
        """Records the rows of a record that had no effect."""
        self._note(self.of_ignored, stream, record)

    def _note(self, projections: Iterable[RecordProjection], stream: Stream, record: Record) -> None:
        for projection in projections:
            if type(record.message) in projection.kinds:
                for row in projection.rows(stream, record):
                    self.add(projection.table, row)

    def add(self, table: Table, row: RowValues) -> None:
        """Adds a row, or merges it with the one of the same key."""
        rows = self.record_rows.setdefault(table.name, (table, {}))[1]
        key = row[: table.key_width]
        old = rows.get(key)
        rows[key] = row if old is None else table.merged(old, row)

    def writes(self) -> list[TableWrite]:
        """Computes the rows from the state as it is now."""
        found = [_write(self.projections[number], keys) for number, keys in self.touched.items()]
        return found + [TableWrite(table, list(rows.values())) for table, rows in self.record_rows.values()]


def _write(projection: Projection[Any], keys: dict[RowKey, Any]) -> TableWrite:
    if not projection.table.grouped:
        return TableWrite(projection.table, [projection.row(state, key) for key, state in keys.items()])
    groups = {key[0] for key in keys}
    states = {id(state): state for state in keys.values()}.values()
    rows = [
        projection.row(state, key) for state in states for key in projection.keys(state) if key[0] in groups
    ]
    return TableWrite(projection.table, rows, sorted(groups))
