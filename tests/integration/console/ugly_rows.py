"""Rows with values as ugly as they can be: drawn for each column of the read models, and written there."""

import json
from dataclasses import dataclass
from random import Random
from typing import Any

import asyncpg

from trackside.projections.database.postgres import LIVE_SCHEMA

HUGE = 2**63 - 1
_TIME_ENDS = (-210_866_803_200_000, 9_224_318_015_999_999)
TIMES = (1_700_000_000_000, 500_000_000_000_000, 1, *_TIME_ENDS, -1, 253_402_300_799_999, -62_135_596_800_000)
"""Times in ms since 1970 that Postgres can hold, of which Python has a date for few."""
WALL_TIMES = (*TIMES, HUGE, -HUGE)
NUMBERS = (0.5, float("nan"), float("inf"), float("-inf"), 1e308, -1e308, 5e-324, -0.0, 0.0)
BYTES = (1, 0, HUGE)
TEXT = "a\x1b[31m\t<b>&amp;\u202e\U0001f600\n" + "x" * 3_000
TEXTS = ("word", "", TEXT, "\ud7ff\ufffd", "[redacted]", "${a}", "{{ 1 }}")
OBJECTS: tuple[dict[str, Any], ...] = (
    {"a": 1},
    {},
    {"": "", TEXT: TEXT, "n": 1e308, "whole": HUGE, "null": None, "yes": True},
    {"deep": [[[{"a": [[]]}]]] * 50, "list": [None, {}, [], "", -0.0]},
    {"[redacted]": "[redacted]", "name": {"__class__": "x"}},
)
MEASURED: tuple[dict[str, Any], ...] = (
    {"a": 0.5},
    {},
    {"a": 1e308, "b": -5e-324, "": 0},
    {"a": HUGE, TEXT: 1},
)
_SHARES = {"share_ended": (0.0, 1.0, 1 / 3), "weight": (1.0, 1e6, 5e-324)}
"""Of what can't be any number."""
_TEXTS = frozenset(
    (
        *("error_type", "error_message", "error_traceback", "message", "reason", "stop_reason", "note"),
        *("description", "unschedulable", "blocked_message", "publisher", "remark", "title", "error"),
    )
)
_NAMED = frozenset(("searches", "runs", "batches"))
_OBJECTS = frozenset(
    (
        *("result", "ready", "instruction_body", "acknowledged_detail", "outputs", "inputs_of_gate"),
        *("config", "metadata"),
    )
)
_PARAMETERS = frozenset(("tasks", "runs", "pipeline_runs", "model_versions"))
_MEASURED = frozenset((("model_versions", "metrics"),))
_KEPT = frozenset(
    ("positions", "snapshots", "snapshot_positions", "migrations", "definitions", "log_identity")
)
_COLUMNS = f"""
SELECT columns.table_name, column_name, udt_name AS type, is_nullable = 'YES' AS nullable
FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
WHERE table_schema = '{LIVE_SCHEMA}' AND table_type = 'BASE TABLE' AND is_generated = 'NEVER'
    AND NOT EXISTS (
        SELECT FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY(indkey)
        WHERE indisprimary AND indrelid = (table_schema || '.' || table_name)::regclass
            AND attname = column_name
    )
ORDER BY 1, 2
"""  # noqa: S608 - constants
CHOICES = 3
"""How many values the rows of a column get in turn."""


@dataclass(frozen=True, eq=False, slots=True)
class UglyColumn:
    """A column that may have any of some values."""

    table: str
    name: str
    type: str
    values: tuple[Any, ...]


async def columns_of(connection: asyncpg.Connection) -> list[UglyColumn]:
    """Returns the columns that are no names of other rows, with the values that they may have."""
    found = []
    for row in await connection.fetch(_COLUMNS):
        table, name, kind = row["table_name"], row["column_name"], row["type"]
        values = () if table in _KEPT else _values(table, name, kind)
        if values:
            found.append(UglyColumn(table, name, kind, (*values, *([None] if row["nullable"] else []))))
    return found


def _values(table: str, name: str, kind: str) -> tuple[Any, ...]:
    if kind == "int8" and name.endswith("_ms"):
        is_wall = table in ("metric_points", "metric_totals", "summary_items", "summary_briefs")
        return WALL_TIMES if is_wall else BYTES if name.endswith("time_ms") else TIMES
    if kind == "int8" and name.endswith(("_bytes", "size")):
        return BYTES
    if kind == "float8":
        return _SHARES.get(name, NUMBERS)
    if kind == "text" and (name in _TEXTS or (name == "name" and table in _NAMED)):
        return TEXTS
    if kind == "jsonb" and (table, name) in _MEASURED:
        return MEASURED
    if kind == "jsonb" and (name in _OBJECTS or (name == "parameters" and table in _PARAMETERS)):
        return OBJECTS
    return ()


async def make_ugly(connection: asyncpg.Connection, chance: Random) -> None:
    """Fills the rows of each table with some of the values of its columns, in turn."""
    by_table: dict[str, list[UglyColumn]] = {}
    for column in await columns_of(connection):
        by_table.setdefault(column.table, []).append(column)
    async with connection.transaction():
        for table, columns in by_table.items():
            changes, given = [], list[Any]()
            for column in columns:
                values = [column.values[chance.randrange(len(column.values))] for _ in range(CHOICES)]
                given.append([_as_json(each) if column.type == "jsonb" else each for each in values])
                changes.append(f"{column.name} = (${len(given)}::{column.type}[])[numbered.n]")
            await connection.execute(
                f"UPDATE {LIVE_SCHEMA}.{table} SET {', '.join(changes)} FROM (SELECT ctid AS place, "  # noqa: S608
                f"1 + (row_number() OVER ()) % {CHOICES} AS n FROM {LIVE_SCHEMA}.{table}) AS numbered "
                f"WHERE {table}.ctid = numbered.place",
                *given,
            )


def _as_json(value: Any) -> str | None:
    return None if value is None else json.dumps(value)
