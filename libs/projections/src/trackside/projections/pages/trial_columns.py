"""The trials of a search as columns: values, states, times and parameters; and the best value so far."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside.aggregates.search.messages import TrialStatus
from trackside.aggregates.search.space.space import NAME
from trackside.projections.reading.columns import NO_LABEL, ChartColumns, ColumnKind, literal, read_arrays
from trackside.projections.reading.read_pool import SnapshotModels

MAX_PARAMETERS = 100
"""How many parameters have a column."""
MAX_LABELS = 1_000
"""How many different texts of a parameter have a label: the most frequent ones."""
SAMPLED_TRIALS = 500
"""How many trials, evenly spread, are looked through for the names and types of parameters."""
STATUSES = tuple(
    sorted((status.value for status in TrialStatus), key=lambda status: status != TrialStatus.SUCCEEDED)
)
"""The labels of states, the most frequent first: it is compared first."""
PARAMETERS, OBJECTIVES = "parameters.", "objectives."
ParameterKeys = tuple[str, ...]
"""The keys of a parameter, from the top level into its sub-spaces."""
_NUMBER, _LABEL = "number", "label"


@dataclass(frozen=True, slots=True)
class ObjectiveColumn:
    """An objective of a search, by its place in `objective_values`, from 1."""

    name: str
    number: int
    minimize: bool

    @property
    def value(self) -> str:
        """The expression of a trial's value; NULL if it has none."""
        alone = "value" if self.number == 1 else "NULL"
        return f"coalesce(objective_values[{self.number}], {alone})"


async def read_objectives(models: SnapshotModels, search_id: str) -> list[ObjectiveColumn]:
    """Returns the objectives of a search: one, named `default`, if it names none.

    An unknown search has none.
    """
    found = await models.fetch(
        "SELECT direction, spec -> 'objectives' AS objectives FROM searches WHERE search_id = $1", search_id
    )
    if not found:
        return []
    named = found[0]["objectives"] or [{"name": "default", "direction": found[0]["direction"]}]
    return [
        ObjectiveColumn(each["name"], at, each["direction"] != "maximize") for at, each in enumerate(named, 1)
    ]


async def trial_columns(
    models: SnapshotModels, search_id: str, parameters: Collection[str] | None = None
) -> ChartColumns:
    """Returns all trials of a search by number, with no rows for an unknown search.

    Columns: `trial`, `status` (labels), `started_ms`, `ended_ms`, `last_value`, `objectives.NAME` for each
    objective, and `parameters.NAME` for each parameter, or for some by name. A parameter of a sub-space is
    named `CHOICE.NAME`. One whose values are all numbers is float64; any other has labels, the JSON of values
    that are no texts.
    """
    objectives = await read_objectives(models, search_id)
    paths = await _parameter_kinds(models, search_id)
    wanted = {
        path: kind for path, kind in paths.items() if parameters is None or ".".join(path) in parameters
    }
    codes = " ".join(f"WHEN {literal(status)} THEN {at}" for at, status in enumerate(STATUSES))
    selected: dict[str, tuple[str, ColumnKind]] = {
        "trial": ("trial", "i4"),
        "status": (f"CASE status {codes} ELSE {NO_LABEL} END", "i4"),
        "started_ms": ("suggested_ms", "f8"),
        "ended_ms": ("coalesce(ended_ms, 'NaN'::double precision)", "f8"),
        "last_value": ("coalesce(last_value, 'NaN')", "f8"),
        **{f"{OBJECTIVES}{each.name}": (f"coalesce({each.value}, 'NaN')", "f8") for each in objectives},
    }
    for path, kind in wanted.items():
        selected[PARAMETERS + ".".join(path)] = _expression(path, kind)
    source = f"trials WHERE search_id = {literal(search_id)}"
    arrays = _sorted(await read_arrays(models.connection, selected, source), ("trial",))
    labels: dict[str, Sequence[str]] = {"status": STATUSES}
    coded = {PARAMETERS + ".".join(path): path for path, kind in wanted.items() if kind == _LABEL}
    labels |= await _replace_hashes(models, search_id, arrays, coded)
    return ChartColumns(arrays, labels, len(arrays["trial"]))


async def best_so_far_columns(models: SnapshotModels, search_id: str, objective: str = "") -> ChartColumns:
    """Returns the best value after each trial that succeeded, in the order in which they ended.

    Of the objective of this name, or of the first one. Columns: `trial`, `ended_ms`, `value`, `best`. Trials
    with parameters outside of the space, or without a number for each objective, are left out.
    """
    known = await read_objectives(models, search_id)
    found = next((each for each in known if each.name == objective or not objective), None)
    if found is None:
        return ChartColumns({name: np.empty(0) for name in ("trial", "ended_ms", "value", "best")})
    selected: dict[str, tuple[str, ColumnKind]] = {
        "trial": ("trial", "i4"),
        "ended_ms": ("ended_ms", "f8"),
        "value": (found.value, "f8"),
    }
    source = (
        f"trials WHERE search_id = {literal(search_id)} AND status = 'SUCCEEDED' AND outside = '{{}}' "
        f"AND array_position(objective_values, NULL) IS NULL AND {found.value} <> 'NaN' "
        "AND ended_ms IS NOT NULL"
    )
    arrays = _sorted(await read_arrays(models.connection, selected, source), ("ended_ms", "trial"))
    best = np.minimum if found.minimize else np.maximum
    arrays["best"] = best.accumulate(arrays["value"])
    return ChartColumns(arrays, {}, len(arrays["trial"]))


def _sorted(arrays: Mapping[str, NDArray[Any]], keys: Sequence[str]) -> dict[str, NDArray[Any]]:
    order = np.lexsort([arrays[key] for key in reversed(keys)])
    return {name: array[order] for name, array in arrays.items()}


async def _parameter_kinds(models: SnapshotModels, search_id: str) -> dict[ParameterKeys, str]:
    """Returns the parameters of some trials, in their order, and whether all their values are numbers."""
    rows = await models.fetch(
        """
        SELECT trials.parameters
        FROM (SELECT max(trial) AS last FROM trials WHERE search_id = $1) AS numbers
        CROSS JOIN generate_series(0, last, greatest(1, last / $2)) AS sampled (trial)
        JOIN trials ON trials.search_id = $1 AND trials.trial = sampled.trial
        ORDER BY trials.trial
        """,
        search_id,
        SAMPLED_TRIALS,
    )
    found: dict[ParameterKeys, str] = {}
    for row in rows:
        for path, value in flattened_parameters(row["parameters"]):
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and found.get(path) != _LABEL:
                found[path] = _NUMBER if number else _LABEL
    return dict(list(found.items())[:MAX_PARAMETERS])


def flattened_parameters(
    parameters: Mapping[str, Any], before: ParameterKeys = ()
) -> Iterable[tuple[ParameterKeys, Any]]:
    """Yields parameters with those of sub-spaces; a choice of sub-spaces has the name of one as its value."""
    for name, value in parameters.items():
        if isinstance(value, dict) and NAME in value:
            yield (*before, name), value[NAME]
            inner = {key: each for key, each in value.items() if key != NAME}
            yield from flattened_parameters(inner, (*before, name))
        else:
            yield (*before, name), value


def _expression(path: ParameterKeys, kind: str) -> tuple[str, ColumnKind]:
    """Returns a number, NaN for anything else; or a hash of what has a label, 0 for nothing."""
    given = "parameters" + "".join(f" -> {literal(key)}" for key in path)
    if kind == _NUMBER:
        # By way of its text: the cast from jsonb takes that way, too, and one more.
        number = f"CASE jsonb_typeof({given}) WHEN 'number' THEN ({given} #>> '{{}}')::double precision END"
        return f"coalesce({number}, 'NaN')", "f8"
    return f"coalesce(jsonb_hash_extended(coalesce({given} -> {literal(NAME)}, {given}), 0), 0)", "i8"


async def _replace_hashes(
    models: SnapshotModels,
    search_id: str,
    arrays: dict[str, NDArray[Any]],
    coded: Mapping[str, ParameterKeys],
) -> dict[str, Sequence[str]]:
    """Replaces hashes by codes of labels, the most frequent first; the labels come from one trial each."""
    firsts: dict[str, list[int]] = {}
    for name in coded:
        hashes, first, codes, counts = np.unique(
            arrays[name], return_index=True, return_inverse=True, return_counts=True
        )
        order = np.argsort(np.where(hashes == 0, -1, counts), kind="stable")[::-1][:MAX_LABELS]
        order = order[hashes[order] != 0]
        places = np.full(len(hashes), NO_LABEL, dtype=np.int32)
        places[order] = np.arange(len(order), dtype=np.int32)
        arrays[name] = places[codes]
        firsts[name] = [int(trial) for trial in arrays["trial"][first[order]]]
    trials = sorted({trial for each in firsts.values() for trial in each})
    rows = await models.fetch(
        "SELECT trial, parameters FROM trials WHERE search_id = $1 AND trial = ANY($2::integer[])",
        search_id,
        trials,
    )
    given = {row["trial"]: dict(flattened_parameters(row["parameters"])) for row in rows} if trials else {}
    return {
        name: [label_of(given[trial].get(path)) for trial in firsts[name]] for name, path in coded.items()
    }


def label_of(value: Any) -> str:
    """Returns a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
