"""The page of a search with its assessor's verdicts and its commands, and both as marks in its charts.

Also the page of one that was forgotten.
"""

import json
from collections.abc import Mapping

import numpy as np
import pytest
import pytest_asyncio

from tests.integration.console.given import Browser, browser_of
from tests.integration.projections.given_jobs import GivenJob, write_jobs
from tests.integration.projections.given_trials import GivenTrial, write_search
from tests.integration.projections.harness import query
from tests.integration.projections.test_forgotten_streams import forgotten_log
from tests.unit.domain.given import STREAM, spec
from trackside.console.pages.searches.marks import MOST_STOPS
from trackside.console.web.page import PageNotFound
from trackside.projections.database.postgres import database as opened_database

HOSTILE = "<img src=x onerror=alert(1)>"
SPEC = {**spec().model_dump(mode="json"), "assessor": None}
SPACE = {"x": {"type": "loguniform", "low": 0.1, "high": 9}, "y": {"type": "uniform", "low": 0, "high": 1}}
ASSESSOR = {"name": "median", "options": {"start_step": 2}}
_COMMAND = """
INSERT INTO trackside.commands (stream_id, command_id, command_type, status, message, publications, publisher,
    received_ms, log_offset) VALUES ('s', $1, $2, $3, $4, 1, $5, $6, 1)
"""


async def given(dsn: str, name: str, stopped: int, given_spec: Mapping[str, object]) -> None:
    """Writes a search of two trials that succeeded at 1,000 and 4,000 ms, and some stopped from 2,000 on."""
    trials = [GivenTrial({"x": 1}, 3.0, ended_ms=1_000), GivenTrial({"x": 2}, 1.0, ended_ms=4_000)]
    trials += [GivenTrial({"x": 3}, 9.5, "EARLY_STOPPED", ended_ms=2_000 + at) for at in range(stopped)]
    await write_search(dsn, name, trials)
    await query(
        dsn, "UPDATE trackside.searches SET spec = $1 WHERE search_id = $2", json.dumps(given_spec), name
    )
    await query(dsn, "UPDATE trackside.trials SET objective_values = ARRAY[value], last_step = 7")
    fields = {"stream": name, "task_type": "t", "name": "", "state": "ended", "ending": "cancelled"}
    times = {"started_ms": 1, "ended_ms": 2}
    losses = {"loss": {1: {0: 1.0, 1_500: 0.5, 3_000: 0.4}}}
    async with opened_database(dsn) as opened:
        jobs = [GivenJob(f"{name}.{n}", {**fields, **times}, metrics=losses) for n in range(len(trials))]
        await write_jobs(opened, jobs)
    by_assessor = "UPDATE trackside.tasks SET stop_reason = 'assessor' WHERE task_id NOT SIMILAR TO '%.(0|1)'"
    await query(dsn, by_assessor)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(module_tables: str) -> Browser:
    """Returns a browser over a search whose assessor stopped a trial, one of many, and one without."""
    dsn, assessed = module_tables, {**SPEC, "assessor": ASSESSOR}
    await given(dsn, "s", 1, assessed)
    await given(dsn, "many", 100, assessed)
    await given(dsn, "plain", 0, {**SPEC, "space": SPACE})
    await query(dsn, _COMMAND, "one", "trackside.pause-search.v1", "accepted", None, HOSTILE, 1_200)
    await query(dsn, _COMMAND, "two", "trackside.resume-search.v1", "refused", HOSTILE, "ann", 1_300)
    return Browser(module_tables)


async def test_the_assessor_is_shown_with_the_trials_that_it_stopped(browser: Browser) -> None:
    page = await browser.page("/experiments/s")
    assessor = page[page.index('id="assessor"') : page.index('id="changes"')]
    assert "median" in assessor and "start_step" in assessor
    assert 'status=EARLY_STOPPED&amp;sort=ended">1 trial</a> early' in assessor
    assert 'href="/tasks/s/s.2">2</a>' in assessor and ">7<" in assessor and ">9.5<" in assessor
    assert "This search has no assessor" in await browser.page("/experiments/plain")


async def test_commands_are_listed_with_their_answers_as_text(browser: Browser) -> None:
    page = await browser.page("/experiments/s")
    commands = page[page.index('id="changes"') :]
    assert ">pause<" in commands and ">resume<" in commands and 'data-status="refused"' in commands
    assert commands.index(">resume<") < commands.index(">pause<")
    assert HOSTILE not in page and "&lt;img src=x" in commands


async def test_accepted_commands_and_stops_of_the_assessor_are_marked_in_the_history_and_in_curves(
    browser: Browser,
) -> None:
    found = await browser.chart("/data/searches/s/history")
    marks = found.meta["annotations"]
    assert [each["kind"] for each in marks] == ["pause", "early_stopped"]
    assert [each["time"] for each in marks] == [1_200, 2_000]
    assert [each["x"] for each in marks] == [1, 1]
    assert marks[1]["text"] == "the assessor stopped a trial"
    found = await browser.chart("/data/tasks/s/s.0/curve?tag=loss")
    assert np.array_equal(found.arrays["step"], [0, 1_500, 3_000])
    assert [(each["kind"], each["x"]) for each in found.meta["annotations"]] == [
        ("pause", 1_500),
        ("early_stopped", 3_000),
    ]


async def test_of_many_stops_one_mark_is_for_those_of_a_span(browser: Browser) -> None:
    marks = (await browser.chart("/data/searches/many/history")).meta["annotations"]
    texts = [each["text"] for each in marks if each["kind"] == "early_stopped"]
    assert len(texts) == MOST_STOPS and texts[0] == "the assessor stopped 3 trials"
    assert "100 trials</a> early" in await browser.page("/experiments/many")


async def test_the_axes_of_logarithmic_parameters_are_logarithmic(browser: Browser) -> None:
    assert (await browser.chart("/data/searches/plain/trials")).meta["log"] == ["x"]


async def test_the_page_of_a_forgotten_stream_says_that_it_was_and_why(tables: str) -> None:
    browser = await browser_of(forgotten_log()[0], tables)
    said = r"was forgotten on .* \(search DONE, 2 trials ended\): a person has asked for it"
    with pytest.raises(PageNotFound, match=said):
        await browser.page(f"/experiments/{STREAM}")
