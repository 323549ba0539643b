"""Rows as columns for charts: arrays of numbers that are copied from Postgres without an object per value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trackside.projections.database.postgres import Connection
from trackside.projections.reading.bulk_reads import copy_binary

NO_LABEL = -1
"""The code of a row that has no value in a column with labels."""
ColumnKind = Literal["f8", "i8", "i4"]
"""A float, a bigint or an integer of Postgres."""
_HEADER_BYTES, _TRAILER_BYTES = 19, 2


@dataclass(frozen=True, slots=True)
class ChartColumns:
    """Equally long arrays by name: float64 (NaN: no value), int64, or int32.

    An int32 column with `labels` has the number of a label in each row, -1 for none. `total` is how many rows
    there are, also those that were left out; `sampled`: extremes may be among these.
    """

    arrays: Mapping[str, NDArray[Any]]
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    total: int = 0
    sampled: bool = False

    @property
    def rows(self) -> int:
        """How many rows the arrays have."""
        return next((len(array) for array in self.arrays.values()), 0)


async def read_arrays(
    connection: Connection, selected: Mapping[str, tuple[str, ColumnKind]], source: str
) -> dict[str, NDArray[Any]]:
    """Returns the columns of a query by name, in any order of the rows.

    `selected` has the expression and the type of each, which must not be NULL; `source` is what follows FROM.
    Postgres sends no value of another length, so the rows of COPY's binary format are one array.
    """
    parts = ", ".join(f"({expression})::{_SQL_TYPES[kind]}" for expression, kind in selected.values())
    content = await copy_binary(connection, f"SELECT {parts} FROM {source}")  # noqa: S608
    fields: list[tuple[str, str]] = [("columns", ">i2")]
    for at, (_, kind) in enumerate(selected.values()):
        fields += [(f"bytes{at}", ">i4"), (f"column{at}", f">{kind}")]
    row = np.dtype(fields)
    count = (len(content) - _HEADER_BYTES - _TRAILER_BYTES) // row.itemsize
    rows = np.frombuffer(content, row, count, _HEADER_BYTES)
    return {name: rows[f"column{at}"].astype(kind) for at, (name, (_, kind)) in enumerate(selected.items())}


def literal(text: str) -> str:
    """Returns a text as a literal of SQL: COPY takes no parameters."""
    return "'" + text.replace("'", "''") + "'"


_SQL_TYPES: Mapping[ColumnKind, str] = {"f8": "double precision", "i8": "bigint", "i4": "integer"}
