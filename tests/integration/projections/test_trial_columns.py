"""Trials as columns: numbers, labels, parameters of sub-spaces, and the best value so far."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.integration.projections.given_trials import GivenTrial, write_search
from trackside.projections.pages import trial_columns as module
from trackside.projections.pages.trial_columns import best_so_far_columns, trial_columns
from trackside.projections.reading.columns import NO_LABEL, ChartColumns
from trackside.projections.reading.read_pool import ReadModelsPool

TRIALS = [
    GivenTrial({"lr": 0.5, "kind": "a", "sub": {"_name": "deep", "layers": 3}}, 2.0),
    GivenTrial({"lr": 1, "kind": "it's", "sub": {"_name": "flat"}}, None, "FAILED"),
    GivenTrial({"lr": 0.25, "kind": "a", "flag": True}, 1.0, ended_ms=500),
    GivenTrial({"lr": 0.125, "kind": None, "sub": {"_name": "deep", "layers": 4}}, math.nan),
    GivenTrial({"lr": 2, "kind": 7, "sub": {"_name": "deep", "layers": 5}}, 9.0, outside=["lr"]),
    GivenTrial({"lr": 3, "kind": "b"}, None, "RUNNING", ended_ms=None, last_value=0.75),
    GivenTrial({"lr": 4, "kind": "a"}, 0.5, ended_ms=2_000),
]


async def columns_of(pool: ReadModelsPool, search_id: str, *names: str) -> ChartColumns:
    """Returns the columns of a search, with some parameters or all of them."""
    async with pool.read() as models:
        return await trial_columns(models, search_id, names or None)


async def best_of(pool: ReadModelsPool, search_id: str, objective: str = "") -> ChartColumns:
    async with pool.read() as models:
        return await best_so_far_columns(models, search_id, objective)


def labelled(columns: ChartColumns, name: str) -> list[str | None]:
    """Returns a column with the labels in place of their codes."""
    labels = columns.labels[name]
    return [None if code == NO_LABEL else labels[code] for code in columns.arrays[name]]


def same(found: NDArray[Any], expected: list[float]) -> bool:
    """Returns whether numbers are equal; NaN equals NaN."""
    return np.array_equal(found, np.array(expected), equal_nan=True)


async def test_trials_are_columns_of_numbers_and_labels(pool: ReadModelsPool, module_tables: str) -> None:
    await write_search(module_tables, "s", TRIALS)
    await write_search(module_tables, "other", TRIALS[:2])
    found = await columns_of(pool, "s")
    nan = math.nan
    assert found.total == found.rows == 7
    assert found.arrays["trial"].tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert labelled(found, "status")[:2] == ["SUCCEEDED", "FAILED"]
    assert labelled(found, "status")[5] == "RUNNING"
    assert same(found.arrays["objectives.default"], [2, nan, 1, nan, 9, nan, 0.5])
    assert same(found.arrays["ended_ms"], [1000, 1000, 500, 1000, 1000, nan, 2000])
    assert same(found.arrays["started_ms"], [0, 10, 20, 30, 40, 50, 60])
    assert same(found.arrays["last_value"], [nan] * 5 + [0.75, nan])
    assert same(found.arrays["parameters.lr"], [0.5, 1, 0.25, 0.125, 2, 3, 4])
    assert same(found.arrays["parameters.sub.layers"], [3, nan, nan, 4, 5, nan, nan])
    assert labelled(found, "parameters.kind") == ["a", "it's", "a", "null", "7", "b", "a"]
    assert found.labels["parameters.kind"][0] == "a", "the most frequent one is the first"
    assert labelled(found, "parameters.sub") == ["deep", "flat", None, "deep", "deep", None, None]
    assert labelled(found, "parameters.flag") == [None, None, "true", None, None, None, None]
    assert {array.dtype for array in found.arrays.values()} == {np.dtype("i4"), np.dtype("f8")}
    some = await columns_of(pool, "s", "sub.layers", "no-such")
    assert [name for name in some.arrays if name.startswith("parameters.")] == ["parameters.sub.layers"]


async def test_a_search_without_trials_and_an_unknown_one_have_empty_columns(
    pool: ReadModelsPool, module_tables: str
) -> None:
    await write_search(module_tables, "none", [])
    for search in ("none", "unknown"):
        found = await columns_of(pool, search)
        assert found.total == found.rows == 0 and len(found.arrays["trial"]) == 0
        assert (await best_of(pool, search)).rows == 0


async def test_rare_labels_are_left_out_beyond_the_limit(
    pool: ReadModelsPool, module_tables: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_LABELS", 2)
    await write_search(module_tables, "labels", [GivenTrial({"kind": kind}) for kind in "abbccc"])
    found = await columns_of(pool, "labels")
    assert labelled(found, "parameters.kind") == [None, "b", "b", "c", "c", "c"]


async def test_odd_names_of_parameters_and_searches_stay_text(
    pool: ReadModelsPool, module_tables: str
) -> None:
    name = "o'; DROP TABLE trials; --"
    await write_search(module_tables, name, [GivenTrial({name: 1.5, 'quo"te\\': "x", "$1": "y"})])
    found = await columns_of(pool, name)
    assert same(found.arrays[f"parameters.{name}"], [1.5])
    assert labelled(found, 'parameters.quo"te\\') == ["x"] and labelled(found, "parameters.$1") == ["y"]


async def test_the_best_so_far_follows_the_order_of_the_ends(
    pool: ReadModelsPool, module_tables: str
) -> None:
    await write_search(module_tables, "down", TRIALS)
    found = await best_of(pool, "down")
    assert found.arrays["trial"].tolist() == [2, 0, 6]
    assert same(found.arrays["best"], [1, 1, 0.5]) and same(found.arrays["value"], [1, 2, 0.5])
    await write_search(module_tables, "up", TRIALS, "maximize")
    assert same((await best_of(pool, "up")).arrays["best"], [1, 2, 2])


async def test_each_objective_has_a_column_and_a_best_value(pool: ReadModelsPool, module_tables: str) -> None:
    objectives = [{"name": "loss", "direction": "minimize"}, {"name": "speed", "direction": "maximize"}]
    trials = [
        GivenTrial({}, 3.0, values=[3.0, 10.0], ended_ms=1),
        GivenTrial({}, 1.0, values=[1.0, None], ended_ms=2),
        GivenTrial({}, 2.0, values=[2.0, 20.0], ended_ms=3),
    ]
    await write_search(module_tables, "two", trials, objectives=objectives)
    found = await columns_of(pool, "two")
    assert same(found.arrays["objectives.loss"], [3, 1, 2])
    assert same(found.arrays["objectives.speed"], [10, math.nan, 20])
    assert same((await best_of(pool, "two")).arrays["best"], [3, 2]), "one has no number for each objective"
    assert same((await best_of(pool, "two", "speed")).arrays["best"], [10, 20])
    assert (await best_of(pool, "two", "no-such")).rows == 0
