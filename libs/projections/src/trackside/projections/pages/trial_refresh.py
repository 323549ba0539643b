"""Brings the columns of a large search up to date by reading the trials that can have changed."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from trackside.domain.rows.table import ViewRow
from trackside.projections.pages.trial_columns import (
    MAX_LABELS,
    OBJECTIVES,
    PARAMETERS,
    flattened_parameters,
    label_of,
    read_objectives,
    trial_columns,
)
from trackside.projections.reading.columns import NO_LABEL, ChartColumns
from trackside.projections.reading.read_pool import SnapshotModels

MOST_CHANGED = 2_000
"""If more trials can have changed, all are read again: that is then faster."""


async def refresh_trial_columns(
    models: SnapshotModels, search_id: str, known: ChartColumns, parameters: Collection[str] | None = None
) -> ChartColumns:
    """Returns what `trial_columns` does, from its earlier result for the same search and parameters.

    Reads the trials that had not ended, and those that are new. All are read again if there are many of
    these, or a parameter that has no column, or a text in a column of numbers. Labels keep their codes. Not
    to be used for columns from before a rebuild of the tables: rows may have changed that had ended.
    """
    numbers = known.arrays["trial"]
    last = int(numbers[-1]) if len(numbers) else -1
    open_trials = [int(trial) for trial in numbers[np.isnan(known.arrays["ended_ms"])]]
    rows = await models.fetch(
        """
        SELECT trial, status, suggested_ms, ended_ms, value, objective_values, last_value, parameters
        FROM trials
        WHERE search_id = $1 AND (trial > $2 OR trial = ANY($3::integer[]))
        ORDER BY trial
        LIMIT $4
        """,
        search_id,
        last,
        open_trials,
        MOST_CHANGED + 1,
    )
    if not rows and not open_trials:
        return known
    objectives = [each.name for each in await read_objectives(models, search_id)]
    cells = [_cells(row, objectives, parameters) for row in rows]
    found_open = sum(row["trial"] <= last for row in rows)
    if len(rows) > MOST_CHANGED or found_open < len(open_trials) or not _fit(cells, known):
        return await trial_columns(models, search_id, parameters)
    return _merged(known, [row["trial"] for row in rows], cells)


def _cells(row: ViewRow, objectives: Sequence[str], parameters: Collection[str] | None) -> Mapping[str, Any]:
    """Returns the values of a trial by the names of their columns, those that it has."""
    values = row["objective_values"] or [row["value"], *[None] * (len(objectives) - 1)]
    found = {
        "trial": row["trial"],
        "status": row["status"],
        "started_ms": row["suggested_ms"],
        "ended_ms": row["ended_ms"],
        "last_value": row["last_value"],
        **{OBJECTIVES + name: value for name, value in zip(objectives, values, strict=True)},
    }
    for path, value in flattened_parameters(row["parameters"]):
        if parameters is None or ".".join(path) in parameters:
            found[PARAMETERS + ".".join(path)] = value
    return found


def _fit(cells: Sequence[Mapping[str, Any]], known: ChartColumns) -> bool:
    """Returns whether all values have a column of their type."""
    for row in cells:
        for name, value in row.items():
            if name not in known.arrays:
                if value is not None:
                    return False
            elif name not in known.labels and isinstance(value, str | bool | list | dict):
                return False
    return True


def _merged(known: ChartColumns, trials: Sequence[int], cells: Sequence[Mapping[str, Any]]) -> ChartColumns:
    """Returns the columns with the rows of these trials replaced or added; `known` stays as it is."""
    numbers = known.arrays["trial"]
    new = [trial for trial in trials if not len(numbers) or trial > numbers[-1]]
    places = np.searchsorted(np.concatenate([numbers, np.array(new, dtype=numbers.dtype)]), trials)
    arrays, labels = {}, dict(known.labels)
    values: list[float]
    for name, array in known.arrays.items():
        if name in known.labels:
            codes = {label: at for at, label in enumerate(known.labels[name])}
            values = [_code(codes, row, name) for row in cells]
            labels[name] = tuple(codes)
        else:
            values = [_number(row.get(name)) for row in cells]
        arrays[name] = np.concatenate([array, np.empty(len(new), dtype=array.dtype)])
        arrays[name][places] = values
    return ChartColumns(arrays, labels, len(arrays["trial"]))


def _code(codes: dict[str, int], row: Mapping[str, Any], name: str) -> int:
    """Returns the code of a row's label, a new one if it is new and there is room."""
    if name not in row:
        return NO_LABEL
    label = label_of(row[name])
    if label not in codes and len(codes) < MAX_LABELS:
        codes[label] = len(codes)
    return codes.get(label, NO_LABEL)


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)
