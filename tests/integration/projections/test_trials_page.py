"""Pages of trials, sorted and filtered by Postgres."""

import math
from collections.abc import AsyncIterator

import pytest

from tests.integration.projections.given_trials import GivenTrial, write_search
from trackside.projections.experiments import BadFilterError
from trackside.projections.read_pool import ReadModelsPool
from trackside.projections.trials_page import TrialFilter, TrialsPage, read_trials_page

TRIALS = [
    GivenTrial({"lr": 10, "kind": "b", "sub": {"_name": "flat"}}, 2.0),
    GivenTrial({"lr": 9.5, "kind": "Adam", "sub": {"_name": "deep", "layers": 3}}, 1.0, ended_ms=90),
    GivenTrial({"lr": 0.5, "kind": "sgd"}, math.nan, "FAILED"),
    GivenTrial({"kind": "adamw", "a.b": 1}, None, "RUNNING", ended_ms=None),
    GivenTrial({"lr": 100, "a.b": 0}, 3.0, ended_ms=3_000),
]


@pytest.fixture
async def pool(database: str) -> AsyncIterator[ReadModelsPool]:
    """Yields a pool of connections to the rows of these trials."""
    await write_search(database, "s", TRIALS)
    await write_search(database, "other", TRIALS)
    opened = ReadModelsPool(database, size=1)
    yield opened
    opened.close()


async def page(pool: ReadModelsPool, wanted: TrialFilter, search_id: str = "s") -> TrialsPage:
    """Returns one page."""
    async with pool.read() as models:
        return await read_trials_page(models, search_id, wanted)


async def order(pool: ReadModelsPool, sort: str, *, descending: bool = False) -> list[int]:
    """Returns the numbers of all trials in an order."""
    return [row["trial"] for row in (await page(pool, TrialFilter(sort, descending))).rows]


@pytest.mark.parametrize(
    ("sort", "ascending", "descending"),
    [
        ("trial", [0, 1, 2, 3, 4], [4, 3, 2, 1, 0]),
        ("value", [1, 0, 4, 2, 3], [4, 0, 1, 2, 3]),
        ("objectives.default", [1, 0, 4, 2, 3], [4, 0, 1, 2, 3]),
        ("ended", [1, 0, 2, 4, 3], [4, 0, 2, 1, 3]),
        ("duration", [1, 2, 0, 4, 3], [4, 0, 2, 1, 3]),
        ("parameters.lr", [2, 1, 0, 4, 3], [4, 0, 1, 2, 3]),
        ("parameters.sub", [1, 0, 2, 3, 4], [0, 1, 2, 3, 4]),
        ("parameters.sub.layers", [1, 0, 2, 3, 4], [1, 0, 2, 3, 4]),
        ("parameters.a.b", [4, 3, 0, 1, 2], [3, 4, 0, 1, 2]),
        ("parameters.no-such", [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]),
    ],
)
async def test_trials_are_sorted_with_those_without_a_value_last(
    pool: ReadModelsPool, sort: str, ascending: list[int], descending: list[int]
) -> None:
    assert await order(pool, sort) == ascending
    assert await order(pool, sort, descending=True) == descending


async def test_pages_follow_each_other_and_know_the_total(pool: ReadModelsPool) -> None:
    first = await page(pool, TrialFilter("parameters.lr", limit=2))
    second = await page(pool, TrialFilter("parameters.lr", limit=2, offset=2))
    assert [row["trial"] for row in (*first.rows, *second.rows)] == [2, 1, 0, 4]
    assert first.total == second.total == 5
    beyond = await page(pool, TrialFilter(offset=50))
    assert (beyond.rows, beyond.total) == ([], 5)
    assert await page(pool, TrialFilter(), "unknown") == TrialsPage([], 0)


async def test_trials_are_filtered_by_status_and_by_text_in_any_case(pool: ReadModelsPool) -> None:
    found = await page(pool, TrialFilter(statuses=("FAILED", "RUNNING")))
    assert ([row["trial"] for row in found.rows], found.total) == ([2, 3], 2)
    found = await page(pool, TrialFilter(text="ADAM"))
    assert ([row["trial"] for row in found.rows], found.total) == ([1, 3], 2)
    assert (await page(pool, TrialFilter(text="%"))).total == 0


async def test_a_row_has_what_the_view_has_without_the_reports(pool: ReadModelsPool) -> None:
    row = (await page(pool, TrialFilter(limit=1, offset=1))).rows[0]
    assert (row["trial"], row["task_id"], row["best"], row["status"]) == (1, "s.1", True, "SUCCEEDED")
    assert row["parameters"]["sub"] == {"_name": "deep", "layers": 3}
    assert not {"report_values", "sort_key", "place", "total"} & set(row)


async def test_an_unknown_sort_key_is_refused(pool: ReadModelsPool) -> None:
    for sort in ("lr", "objectives.loss", "task_id; --"):
        with pytest.raises(BadFilterError, match=r"expected one of trial, value"):
            await page(pool, TrialFilter(sort))
