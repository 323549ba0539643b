"""Compares the tables of two schemas byte for byte, and names the first cell that differs."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from trackside.projections.postgres import Connection, copy_out, stream_rows
from trackside.projections.projection import RowValues, Table

MISSING = "no such row"


@dataclass(frozen=True, slots=True)
class Difference:
    """The first cell that differs; `column` is empty if the whole row is on one side only."""

    table: str
    key: RowValues
    column: str
    live: Any
    rebuilt: Any

    def __str__(self) -> str:
        """Names table, key, column and both values."""
        key = ", ".join(str(part) for part in self.key)
        place = f"table {self.table}, key ({key})" + (f", column {self.column}" if self.column else "")
        return f"{place}: live {self.live!r}, rebuilt {self.rebuilt!r}"


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: a connection that sees its schema first, and a condition on rows."""

    connection: Connection
    condition: str = ""

    def select(self, table: Table) -> str:
        """Writes the query of a table's rows in the order of its key."""
        where = f" WHERE {self.condition}" if self.condition else ""
        columns, key = ", ".join(table.columns), ", ".join(table.key)
        return f"SELECT {columns} FROM {table.name}{where} ORDER BY {key}"  # noqa: S608 - our names


async def difference(table: Table, live: Side, rebuilt: Side) -> Difference | None:
    """Gives the first difference of a table's rows, or None if they are the same bytes."""
    if await _digest(table, live) == await _digest(table, rebuilt):
        return None
    return await _first_difference(table, live, rebuilt)


async def _digest(table: Table, side: Side) -> bytes:
    digest = sha256()

    async def take(octets: bytes) -> None:
        digest.update(octets)

    await copy_out(side.connection, side.select(table), take)
    return digest.digest()


async def _first_difference(table: Table, live: Side, rebuilt: Side) -> Difference | None:
    left = stream_rows(live.connection, live.select(table))
    right = stream_rows(rebuilt.connection, rebuilt.select(table))
    while True:
        ours, theirs = await _next(left), await _next(right)
        if ours is None and theirs is None:
            return None
        if repr(ours) == repr(theirs):
            continue
        return _named(table, ours, theirs)


async def _next(rows: AsyncIterator[RowValues]) -> RowValues | None:
    return await anext(rows, None)


def _named(table: Table, live: RowValues | None, rebuilt: RowValues | None) -> Difference:
    width = table.key_width
    if live is None or (rebuilt is not None and _before(rebuilt[:width], live[:width])):
        assert rebuilt is not None
        return Difference(table.name, rebuilt[:width], "", MISSING, _shown(table, rebuilt))
    if rebuilt is None or live[:width] != rebuilt[:width]:
        return Difference(table.name, live[:width], "", _shown(table, live), MISSING)
    at = next(at for at, value in enumerate(live) if repr(value) != repr(rebuilt[at]))
    return Difference(table.name, live[:width], table.columns[at], live[at], rebuilt[at])


def _before(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Says whether a key comes first: numbers by size, text by code points as collation "C" has it."""
    return tuple(left) < tuple(right)


def _shown(table: Table, row: RowValues) -> dict[str, Any]:
    return {name: value for name, value in zip(table.columns, row, strict=True) if value is not None}
