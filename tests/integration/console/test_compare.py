"""The page that compares, over rows of searches and tasks."""

import pytest
import pytest_asyncio

from tests.integration.console.given import Browser
from tests.integration.projections.given_jobs import GivenJob, write_jobs
from tests.integration.projections.given_trials import GivenTrial, write_search
from trackside.console.web.page import BadQuery, PageNotFound
from trackside.projections.database.postgres import database as opened_database

HOSTILE = "<script>alert(1)</script>"


def task(job_id: str, rate: float, losses: dict[int, float]) -> GivenJob:
    fields = {"stream": "batch", "task_type": "t", "name": "", "state": "ended", "ending": "finished"}
    parameters = {"rate": rate, "layers": 3, "note": HOSTILE, "model": {"depth": 2}}
    return GivenJob(
        job_id, {**fields, "started_ms": 1, "ended_ms": 2}, parameters, metrics={"loss": {1: losses}}
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(module_tables: str) -> Browser:
    """Returns a browser over two searches of three trials, and two tasks with curves."""
    for search_id, found in (("first", (3.0, 1.0, 2.0)), ("second", (5.0, 4.0, 0.5))):
        trials = [GivenTrial({"x": value}, value, ended_ms=1_000 * at) for at, value in enumerate(found, 1)]
        await write_search(module_tables, search_id, trials)
    async with opened_database(module_tables) as opened:
        jobs = [task("batch.1", 0.1, {0: 1.0, 10: 0.5}), task("batch.2", 0.2, {0: 2.0, 5: 0.1})]
        await write_jobs(opened, jobs)
    return Browser(module_tables)


async def test_what_differs_comes_first_and_what_is_the_same_is_folded(browser: Browser) -> None:
    page = await browser.page("/compare?id=batch.1&id=batch.2")
    parameters = page[page.index("<h2>Parameters</h2>") : page.index("<h2>Results</h2>")]
    differing, same = parameters.split("<details")
    assert ">rate<" in differing and "0.1" in differing and "0.2" in differing
    assert ">layers<" not in differing and ">layers<" in same and ">model.depth<" in same
    assert HOSTILE not in page and "&lt;script&gt;" in page


async def test_curves_of_tasks_are_series_of_one_chart(browser: Browser) -> None:
    found = await browser.chart("/data/compare/curves?task=batch.1&task=batch.2&tag=loss")
    assert list(found.labels["series"]) == ["batch.1", "batch.2"]
    assert found.arrays["series"].tolist() == [0, 0, 1, 1]
    assert found.arrays["step"].tolist() == [0, 10, 0, 5]
    assert found.arrays["value"].tolist() == [1.0, 0.5, 2.0, 0.1]


async def test_values_are_drawn_by_the_number_of_the_trial_and_the_best_where_it_changes(
    browser: Browser,
) -> None:
    found = await browser.chart("/data/compare/best?id=first&id=second")
    assert list(found.labels["series"]) == ["first", "second"]
    assert found.arrays["number"].tolist() == [1, 2, 3, 1, 2, 3]
    assert found.arrays["best"].tolist() == [3.0, 1.0, 1.0, 5.0, 4.0, 0.5]
    page = await browser.page("/compare?id=first&id=second")
    assert "/data/compare/best?id=first&amp;id=second" in page
    found = await browser.chart("/data/compare/values?id=first&id=second")
    assert found.arrays["number"].tolist() == [0, 1, 2, 0, 1, 2]
    assert found.arrays["value"].tolist() == [3.0, 1.0, 2.0, 5.0, 4.0, 0.5]


async def test_an_experiment_and_a_task_can_be_compared(browser: Browser) -> None:
    page = await browser.page("/compare?id=first&id=batch.1")
    assert 'href="/experiments/first"' in page and 'href="/tasks/batch/batch.1"' in page
    with pytest.raises(PageNotFound, match="no experiment and no task nothing"):
        await browser.page("/compare?id=first&id=nothing")


@pytest.mark.parametrize(
    ("query", "given"),
    [
        ("", "there are none"),
        ("?id=first", "there is 1"),
        ("?id=first&id=first", "there is 1"),
        ("?" + "&".join(f"id=s{number}" for number in range(21)), "21"),
    ],
)
async def test_a_comparison_has_2_to_20_ids(browser: Browser, query: str, given: str) -> None:
    with pytest.raises(BadQuery, match=f"2 to 20 different ids.*{given}"):
        await browser.page(f"/compare{query}")
