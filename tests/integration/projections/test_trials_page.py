"""Pages of trials, sorted and filtered by Postgres, and which trials a trial continues."""

import math

import pytest
import pytest_asyncio

from tests.integration.projections.given_trials import GivenTrial, write_search
from tests.integration.projections.harness import insert
from trackside.projections.pages.experiments import BadFilterError
from trackside.projections.pages.trial_lineage import TrialLineage, read_trial_lineage
from trackside.projections.pages.trials_page import TrialFilter, TrialsPage, read_trials_page
from trackside.projections.reading.read_pool import ReadModelsPool

TRIALS = [
    GivenTrial({"lr": 10, "kind": "b", "sub": {"_name": "flat"}}, 2.0),
    GivenTrial({"lr": 9.5, "kind": "Adam", "sub": {"_name": "deep", "layers": 3}}, 1.0, ended_ms=90),
    GivenTrial({"lr": 0.5, "kind": "sgd"}, math.nan, "FAILED"),
    GivenTrial({"kind": "adamw", "a.b": 1}, None, "RUNNING", ended_ms=None),
    GivenTrial({"lr": 100, "a.b": 0}, 3.0, ended_ms=3_000),
]


pytestmark = pytest.mark.usefixtures("filled")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def filled(module_tables: str) -> None:
    await write_search(module_tables, "s", TRIALS)
    await write_search(module_tables, "other", TRIALS)


async def page(pool: ReadModelsPool, wanted: TrialFilter, search_id: str = "s") -> TrialsPage:
    async with pool.read() as models:
        return await read_trials_page(models, search_id, wanted)


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
    for falling, expected in ((False, ascending), (True, descending)):
        assert [row["trial"] for row in (await page(pool, TrialFilter(sort, falling))).rows] == expected


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


async def lineage(pool: ReadModelsPool, trial: int, search_id: str = "line") -> TrialLineage:
    async with pool.read() as models:
        return await read_trial_lineage(models, search_id, trial)


async def test_a_trial_has_those_that_it_continues_in_order_and_those_that_continue_it(
    pool: ReadModelsPool, module_tables: str
) -> None:
    """Of two searches of five trials: 2 continues 0, 3 and 4 continue 2."""
    for search_id in ("line", "apart"):
        await write_search(module_tables, search_id, [GivenTrial({}, float(number)) for number in range(5)])
    continues = "UPDATE trials SET from_trial = $1, from_step = $2 WHERE search_id = 'line' AND trial = $3"
    await insert(module_tables, continues, [(0, 10, 2), (2, 20, 3), (2, 30, 4)])
    found = await lineage(pool, 2)
    assert [(each["trial"], each["from_trial"], each["from_step"]) for each in found.line] == [
        (0, None, None),
        (2, 0, 10),
    ]
    assert [each["trial"] for each in found.continuations] == [3, 4]
    last = await lineage(pool, 4)
    assert [each["trial"] for each in last.line] == [0, 2, 4] and not last.continuations
    assert last
    for trial, search_id in ((1, "line"), (2, "apart"), (99, "line")):
        assert not await lineage(pool, trial, search_id), "it shares no checkpoint"
