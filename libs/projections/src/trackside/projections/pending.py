"""What a batch of one partition changed: the keys touched, turned into rows when the batch ends."""

from dataclasses import dataclass, field
from typing import Any

from trackside.contracts.message import Event, Record
from trackside.domain.stream import Stream
from trackside.projections.projection import Key, Projection, RecordProjection, Row, Table, Write


@dataclass(slots=True)
class Pending:
    """The changes of one partition from offset `base` up to `end`, which is not included."""

    projections: tuple[Projection[Any], ...]
    sources: tuple[RecordProjection, ...]
    base: int
    end: int
    of_ignored: tuple[RecordProjection, ...] = ()
    touched: dict[int, dict[Key, Any]] = field(default_factory=dict)
    facts: dict[str, tuple[Table, dict[Key, Row]]] = field(default_factory=dict)

    def note(self, state: Any, event: Event) -> None:
        """Notes the rows that an event, which was applied to `state`, may have changed."""
        for number, projection in enumerate(self.projections):
            for key in projection.touched(state, event):
                self.touched.setdefault(number, {})[key] = state

    def note_record(self, stream: Stream, record: Record) -> None:
        """Notes the rows that a record itself gives."""
        for source in self.sources:
            for row in source.rows(stream, record):
                self.add(source.table, row)

    def note_ignored(self, stream: Stream, record: Record) -> None:
        """Notes the rows of a record that had no effect."""
        for source in self.of_ignored:
            for row in source.rows(stream, record):
                self.add(source.table, row)

    def add(self, table: Table, row: Row) -> None:
        """Adds a row, or completes the one of the same key."""
        rows = self.facts.setdefault(table.name, (table, {}))[1]
        key = row[: table.key_width]
        old = rows.get(key)
        rows[key] = row if old is None else table.merged(old, row)

    def writes(self) -> list[Write]:
        """Computes the rows from the state as it is now."""
        found = [_write(self.projections[number], keys) for number, keys in self.touched.items()]
        return found + [Write(table, list(rows.values())) for table, rows in self.facts.values()]


def _write(projection: Projection[Any], keys: dict[Key, Any]) -> Write:
    if not projection.table.grouped:
        return Write(projection.table, [projection.row(state, key) for key, state in keys.items()])
    groups = {key[0] for key in keys}
    state = next(iter(keys.values()))
    rows = [projection.row(state, key) for key in projection.keys(state) if key[0] in groups]
    return Write(projection.table, rows, sorted(groups))
