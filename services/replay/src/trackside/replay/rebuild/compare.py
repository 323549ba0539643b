"""Compares the tables of two schemas byte for byte, and finds the first cell that differs."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from trackside.domain.rows.table import RowValues, Table
from trackside.projections.database.postgres import Connection
from trackside.projections.reading.bulk_reads import copy_out, stream_rows

MISSING = "no such row"


@dataclass(frozen=True, slots=True)
class TableDifference:
    """The first cell that differs; `column` is empty if the row exists in one schema only."""

    table: str
    key: RowValues
    column: str
    live: Any
    rebuilt: Any

    def __str__(self) -> str:
        """Returns table, key, column and both values as one line."""
        key = ", ".join(str(part) for part in self.key)
        place = f"table {self.table}, key ({key})" + (f", column {self.column}" if self.column else "")
        return f"{place}: live {self.live!r}, rebuilt {self.rebuilt!r}"


@dataclass(frozen=True, slots=True)
class TableSource:
    """The tables of a schema: a connection that has it first in its search path, and a condition on rows."""

    connection: Connection
    condition: str = ""

    def select(self, table: Table) -> str:
        """Returns the query of a table's rows in the order of its key."""
        where = f" WHERE {self.condition}" if self.condition else ""
        columns, key = ", ".join(table.columns), ", ".join(table.key)
        return f"SELECT {columns} FROM {table.name}{where} ORDER BY {key}"  # noqa: S608 - our names


async def first_difference(table: Table, live: TableSource, rebuilt: TableSource) -> TableDifference | None:
    """Returns the first difference of a table's rows, None if they are the same bytes."""
    if await table_digest(table, live) == await table_digest(table, rebuilt):
        return None
    return await _first_difference(table, live, rebuilt)


async def table_digest(table: Table, side: TableSource) -> bytes:
    """Returns the sha256 of the rows of a table, in the order of their keys."""
    digest = sha256()

    async def take(octets: bytes) -> None:
        digest.update(octets)

    await copy_out(side.connection, side.select(table), take)
    return digest.digest()


async def _first_difference(table: Table, live: TableSource, rebuilt: TableSource) -> TableDifference | None:
    live_rows = stream_rows(live.connection, live.select(table))
    rebuilt_rows = stream_rows(rebuilt.connection, rebuilt.select(table))
    while True:
        live_row, rebuilt_row = await _next_row(live_rows), await _next_row(rebuilt_rows)
        if live_row is None and rebuilt_row is None:
            return None
        if repr(live_row) == repr(rebuilt_row):
            continue
        return _difference_of_rows(table, live_row, rebuilt_row)


@dataclass(slots=True)
class RowDifferences:
    """How many rows of a table differ, and the first of the differences."""

    changed: int = 0
    added: int = 0
    removed: int = 0
    first: TableDifference | None = None

    @property
    def count(self) -> int:
        """The rows that differ."""
        return self.changed + self.added + self.removed


async def row_differences(table: Table, live: TableSource, rebuilt: TableSource) -> RowDifferences:
    """Counts the rows of a table that a rebuild changes, adds and removes."""
    found = RowDifferences()
    if await table_digest(table, live) == await table_digest(table, rebuilt):
        return found
    width = table.key_width
    live_rows = stream_rows(live.connection, live.select(table))
    rebuilt_rows = stream_rows(rebuilt.connection, rebuilt.select(table))
    live_row, rebuilt_row = await _next_row(live_rows), await _next_row(rebuilt_rows)
    while live_row is not None or rebuilt_row is not None:
        if repr(live_row) != repr(rebuilt_row) and found.first is None:
            found.first = _difference_of_rows(table, live_row, rebuilt_row)
        if live_row is None or (rebuilt_row is not None and _before(rebuilt_row[:width], live_row[:width])):
            found.added += 1
            rebuilt_row = await _next_row(rebuilt_rows)
        elif rebuilt_row is None or live_row[:width] != rebuilt_row[:width]:
            found.removed += 1
            live_row = await _next_row(live_rows)
        else:
            found.changed += repr(live_row) != repr(rebuilt_row)
            live_row, rebuilt_row = await _next_row(live_rows), await _next_row(rebuilt_rows)
    return found


async def _next_row(rows: AsyncIterator[RowValues]) -> RowValues | None:
    return await anext(rows, None)


def _difference_of_rows(table: Table, live: RowValues | None, rebuilt: RowValues | None) -> TableDifference:
    width = table.key_width
    if live is None or (rebuilt is not None and _before(rebuilt[:width], live[:width])):
        assert rebuilt is not None
        return TableDifference(table.name, rebuilt[:width], "", MISSING, _non_null(table, rebuilt))
    if rebuilt is None or live[:width] != rebuilt[:width]:
        return TableDifference(table.name, live[:width], "", _non_null(table, live), MISSING)
    index = next(index for index, value in enumerate(live) if repr(value) != repr(rebuilt[index]))
    return TableDifference(table.name, live[:width], table.columns[index], live[index], rebuilt[index])


def _before(live_rows: Sequence[Any], rebuilt_rows: Sequence[Any]) -> bool:
    """Returns whether a key comes first: numbers by size, text by code points, as in collation "C"."""
    return tuple(live_rows) < tuple(rebuilt_rows)


def _non_null(table: Table, row: RowValues) -> dict[str, Any]:
    return {name: value for name, value in zip(table.columns, row, strict=True) if value is not None}
