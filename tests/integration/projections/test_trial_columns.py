"""Trials as columns: numbers, labels, parameters of sub-spaces, and the best value so far."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.integration.projections.given_trials import GivenTrial, write_search
from trackside.projections import trial_columns as module
from trackside.projections.columns import NO_LABEL, ChartColumns
from trackside.projections.read_pool import ReadModelsPool
from trackside.projections.trial_columns import best_so_far_columns, trial_columns

TRIALS = [
    GivenTrial({"lr": 0.5, "kind": "a", "sub": {"_name": "deep", "layers": 3}}, 2.0),
    GivenTrial({"lr": 1, "kind": "it's", "sub": {"_name": "flat"}}, None, "FAILED"),
    GivenTrial({"lr": 0.25, "kind": "a", "flag": True}, 1.0, ended_ms=500),
    GivenTrial({"lr": 0.125, "kind": None, "sub": {"_name": "deep", "layers": 4}}, math.nan),
    GivenTrial({"lr": 2, "kind": 7, "sub": {"_name": "deep", "layers": 5}}, 9.0, outside=["lr"]),
    GivenTrial({"lr": 3, "kind": "b"}, None, "RUNNING", ended_ms=None, last_value=0.75),
    GivenTrial({"lr": 4, "kind": "a"}, 0.5, ended_ms=2_000),
]


async def columns_of(dsn: str, search_id: str, *names: str) -> ChartColumns:
    """Returns the columns of a search, with some parameters or all of them."""
    pool = ReadModelsPool(dsn, size=1)
    try:
        async with pool.read() as models:
            return await trial_columns(models, search_id, names or None)
    finally:
        pool.close()


async def best_of(dsn: str, search_id: str, objective: str = "") -> ChartColumns:
    """Returns the best values so far of a search."""
    pool = ReadModelsPool(dsn, size=1)
    try:
        async with pool.read() as models:
            return await best_so_far_columns(models, search_id, objective)
    finally:
        pool.close()


def labelled(columns: ChartColumns, name: str) -> list[str | None]:
    """Returns a column with the labels in place of their codes."""
    labels = columns.labels[name]
    return [None if code == NO_LABEL else labels[code] for code in columns.arrays[name]]


def same(found: NDArray[Any], expected: list[float]) -> bool:
    """Returns whether numbers are equal; NaN equals NaN."""
    return np.array_equal(found, np.array(expected), equal_nan=True)


async def test_trials_are_columns_of_numbers_and_labels(database: str) -> None:
    await write_search(database, "s", TRIALS)
    await write_search(database, "other", TRIALS[:2])
    found = await columns_of(database, "s")
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


async def test_only_the_parameters_that_are_asked_for_are_read(database: str) -> None:
    await write_search(database, "s", TRIALS)
    found = await columns_of(database, "s", "sub.layers", "no-such")
    assert [name for name in found.arrays if name.startswith("parameters.")] == ["parameters.sub.layers"]


async def test_a_search_without_trials_and_an_unknown_one_have_empty_columns(database: str) -> None:
    await write_search(database, "s", [])
    for search in ("s", "unknown"):
        found = await columns_of(database, search)
        assert found.total == found.rows == 0 and len(found.arrays["trial"]) == 0
        assert (await best_of(database, search)).rows == 0


async def test_rare_labels_are_left_out_beyond_the_limit(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_LABELS", 2)
    await write_search(database, "s", [GivenTrial({"kind": kind}) for kind in "abbccc"])
    found = await columns_of(database, "s")
    assert labelled(found, "parameters.kind") == [None, "b", "b", "c", "c", "c"]


async def test_odd_names_of_parameters_and_searches_stay_text(database: str) -> None:
    name = "o'; DROP TABLE trials; --"
    await write_search(database, name, [GivenTrial({name: 1.5, 'quo"te\\': "x", "$1": "y"})])
    found = await columns_of(database, name)
    assert same(found.arrays[f"parameters.{name}"], [1.5])
    assert labelled(found, 'parameters.quo"te\\') == ["x"] and labelled(found, "parameters.$1") == ["y"]


async def test_the_best_so_far_follows_the_order_of_the_ends(database: str) -> None:
    await write_search(database, "down", TRIALS)
    found = await best_of(database, "down")
    assert found.arrays["trial"].tolist() == [2, 0, 6]
    assert same(found.arrays["best"], [1, 1, 0.5]) and same(found.arrays["value"], [1, 2, 0.5])
    await write_search(database, "up", TRIALS, "maximize")
    assert same((await best_of(database, "up")).arrays["best"], [1, 2, 2])


async def test_each_objective_has_a_column_and_a_best_value(database: str) -> None:
    objectives = [
        {"name": "loss", "direction": "minimize"},
        {"name": "speed", "direction": "maximize"},
    ]
    trials = [
        GivenTrial({}, 3.0, values=[3.0, 10.0], ended_ms=1),
        GivenTrial({}, 1.0, values=[1.0, None], ended_ms=2),
        GivenTrial({}, 2.0, values=[2.0, 20.0], ended_ms=3),
    ]
    await write_search(database, "s", trials, objectives=objectives)
    found = await columns_of(database, "s")
    assert same(found.arrays["objectives.loss"], [3, 1, 2])
    assert same(found.arrays["objectives.speed"], [10, math.nan, 20])
    assert same((await best_of(database, "s")).arrays["best"], [3, 2]), "one has no number for each objective"
    assert same((await best_of(database, "s", "speed")).arrays["best"], [10, 20])
    assert (await best_of(database, "s", "no-such")).rows == 0
