"""The changes of one partition that are not in the rows yet: keys touched, and rows that can't wait."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trackside.contracts.envelope.message import Event, Record
from trackside.domain.rows.table import (
    Projection,
    RecordProjection,
    RowKey,
    RowValues,
    Table,
    TableWrite,
    settled_keys,
)
from trackside.domain.streams.stream import Stream


@dataclass(slots=True)
class _Touched:
    """A state, and the keys of its rows that may have changed, by projection."""

    state: Any
    keys: dict[Projection[Any], dict[RowKey, None]] = field(default_factory=dict)


@dataclass(slots=True)
class _Rows:
    """Rows of a table by key; `groups`: values of the first key column whose rows these replace."""

    table: Table
    by_key: dict[RowKey, RowValues] = field(default_factory=dict)
    groups: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True)
class PendingChanges:
    """The changes of one partition from offset `base` up to `end`, which is not included.

    `end` is known once they are taken to be written. `oldest_ms` is when the first of its records was
    appended, in ms since 1970; `size` is how many keys and rows it holds.

    Most rows are computed when they are written, from the state of that time. Those of parts that the state
    forgets are computed before that (`settle`), and those of single records at once.
    """

    base: int
    oldest_ms: int
    end: int = -1
    size: int = 0
    touched: dict[str, _Touched] = field(default_factory=dict)
    streams: set[str] = field(default_factory=set)
    """The streams that have an event among the changes."""
    forgotten: set[str] = field(default_factory=set)
    """The streams of which all rows are to be removed before these are written."""
    _rows: dict[str, _Rows] = field(default_factory=dict)

    def note(self, name: str, state: Any, projections: tuple[Projection[Any], ...], event: Event) -> None:
        """Records the keys of rows that may have changed by an event that was applied to the state `name`."""
        found: _Touched | None = None
        for projection in projections:
            for key in projection.touched(state, event):
                if found is None:
                    found = self._of(name, state)
                keys = found.keys.setdefault(projection, {})
                if key not in keys:
                    keys[key] = None
                    self.size += 1

    def _of(self, name: str, state: Any) -> _Touched:
        found = self.touched.get(name)
        if found is None:
            found = self.touched[name] = _Touched(state)
        found.state = state  # a stream that was spilled and is loaded again is another object
        return found

    def note_record(self, projections: tuple[RecordProjection, ...], stream: Stream, record: Record) -> None:
        """Records the rows computed from a record itself."""
        for projection in projections:
            if type(record.message) in projection.kinds:
                for row in projection.rows(stream, record):
                    self.add(projection.table, row)

    def add(self, table: Table, row: RowValues) -> None:
        """Adds a row, or merges it with the one of the same key."""
        rows = self._rows_of(self._rows, table).by_key
        key = row[: table.key_width]
        old = rows.get(key)
        if old is None:
            self.size += 1
        rows[key] = row if old is None else table.merged(old, row)

    def forget(self, stream_id: str, columns: Mapping[str, str]) -> None:
        """Drops the changes of a stream; `columns` name the column with its id, by table."""
        self.touched.pop(stream_id, None)
        for name, rows in self._rows.items():
            if (column := columns.get(name)) is not None:
                at = rows.table.columns.index(column)
                rows.by_key = {key: row for key, row in rows.by_key.items() if row[at] != stream_id}
                rows.groups.pop(stream_id, None)
        self.forgotten.add(stream_id)

    def settle(self, stream: Stream) -> None:
        """Computes the touched rows that `shrink` makes impossible to compute; to be called before it."""
        touched = self.touched.get(stream.stream_id)
        if touched is None:
            return
        for projection, keys in list(touched.keys.items()):
            if stream.closed:
                settled = [] if projection.table.changes_after_close else list(keys)
            elif (of_stream := settled_keys(projection, stream)) is not None:
                settled = [key for key in of_stream if key in keys]
            else:
                continue
            _compute(projection, stream, settled, self._rows_of(self._rows, projection.table))
            for key in settled:
                del keys[key]
            if not keys:
                del touched.keys[projection]
        if not touched.keys:
            del self.touched[stream.stream_id]

    def writes(self) -> list[TableWrite]:
        """Computes the rows from the state as it is now."""
        found = {name: _Rows(of.table, dict(of.by_key), dict(of.groups)) for name, of in self._rows.items()}
        for touched in self.touched.values():
            for projection, keys in touched.keys.items():
                _compute(projection, touched.state, list(keys), self._rows_of(found, projection.table))
        return [TableWrite(of.table, list(of.by_key.values()), sorted(of.groups)) for of in found.values()]

    @staticmethod
    def _rows_of(rows: dict[str, _Rows], table: Table) -> _Rows:
        return rows.setdefault(table.name, _Rows(table))


def _compute(projection: Projection[Any], state: Any, keys: list[RowKey], rows: _Rows) -> None:
    """Adds the rows of keys; those of a grouped table are all rows with their first parts."""
    table = projection.table
    if table.grouped:
        groups = {key[0] for key in keys}
        rows.groups.update(dict.fromkeys(groups))
        keys = [key for key in projection.keys(state) if key[0] in groups] if groups else []
    for key in keys:
        rows.by_key[key] = projection.row(state, key)
