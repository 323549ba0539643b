"""The pages of runs and their steps, from the rows that a real log leads to."""

from collections.abc import Iterator

import pytest

from tests.integration.console.given import Browser, browser_of, browsing
from tests.integration.projections.test_views_of_runs import eventful
from tests.stack import Servers
from tests.unit.aggregates.run.given import RunLog, started, step
from tests.unit.domain.given import STREAM
from trackside.aggregates.run.steps.critical_path import critical_path
from trackside.console.web.page import PageNotFound
from trackside.console.web.users import Role, User
from trackside.contracts.tasks.tasks import AttemptEnd

RUN = f"/experiments/{STREAM}"
HOSTILE = "<script>alert(1)</script>"


def waiting() -> RunLog:
    """Returns the log of a run that waits for a gate with a form, with hostile texts in it."""
    form = {
        "epochs": {"type": "integer", "minimum": 1, "default": 5, "description": HOSTILE},
        "ship": {"type": "boolean", "default": True},
        "target": {"enum": ["staging", "production"]},
    }
    log = started(
        step("data", parameters={"rows": "${pipeline.rows}", "note": HOSTILE}),
        step("ok", "data", gate={"message": f"good enough? {HOSTILE}", "form": form}),
        step("train", "ok", parameters={"epochs": "${ok.result.epochs}", "from": "${data.result.x:-none}"}),
        parameters={"rows": 3},
        schemas={"rows": {"type": "integer"}},
    )
    log.finish("data")
    return log


@pytest.fixture(scope="module")
def ended(stack: Servers) -> Iterator[Browser]:
    with browsing(stack, eventful().records) as browser:
        yield browser


@pytest.fixture(scope="module")
def gated(stack: Servers) -> Iterator[Browser]:
    with browsing(stack, waiting().records) as browser:
        yield browser


async def test_the_page_of_a_run_has_its_steps_and_offers_to_retry_those_that_failed(ended: Browser) -> None:
    page = await ended.page(RUN)
    for name in ("data", "train", "check", "ok", "tune"):
        assert f'href="{RUN}/steps/{name}"' in page
    assert "Retry failed steps" in page and "Stop this run?" not in page
    assert 'data-src="/data/runs/' in page


async def test_home_shows_a_run_that_waits_for_a_decision_and_a_viewer_sees_its_gate_without_a_form(
    gated: Browser,
) -> None:
    page = await gated.page("/")
    assert f'href="{RUN}"' in page.split("Ended lately")[0] and "A gate waits for a decision." in page
    page = await gated.of(User("eve", Role.VIEWER)).page(RUN)
    assert "good enough?" in page and "An operator can approve or reject it" in page
    assert '<form class="command"' not in page


async def test_steps_are_filtered_and_sorted_by_the_address(ended: Browser) -> None:
    failed = await ended.page(f"{RUN}?state=timed_out")
    assert 'id="step-check"' in failed and 'id="step-data"' not in failed
    backwards = await ended.page(f"{RUN}?sort=step&order=desc")
    assert backwards.index('id="step-tune"') < backwards.index('id="step-check"')
    assert "No step is like that" in await ended.page(f"{RUN}?text=nothing+like+this")


async def test_the_graph_has_each_step_and_marks_the_critical_path_and_the_timeline_has_those_that_were_ready(
    ended: Browser,
) -> None:
    found = (await ended.chart(f"/data/runs/{STREAM}/graph")).meta
    nodes = {node["id"]: node for node in found["nodes"]}
    assert nodes["check"]["state"] == "timed_out" and nodes["data"]["href"] == f"{RUN}/steps/data"
    edges = {(edge["source"], edge["target"]) for edge in found["edges"]}
    assert edges == {("data", "train"), ("data", "check"), ("train", "ok"), ("ok", "tune"), ("check", "tune")}
    marked = [node["id"] for node in found["nodes"] if node["critical"]]
    assert marked == [each.step for each in critical_path(eventful().run)]
    assert {"data", "ok"} <= {*marked} and "tune" not in marked
    timeline = await ended.chart(f"/data/runs/{STREAM}/timeline")
    assert list(timeline.labels["row"]) == ["data", "train", "check", "ok"]
    assert (timeline.arrays["start"] <= timeline.arrays["end"]).all()


async def test_a_step_shows_its_tasks_why_it_failed_and_what_each_parameter_comes_from(
    ended: Browser,
) -> None:
    page = await ended.page(f"{RUN}/steps/train")
    assert all(f'href="/tasks/{STREAM}/{STREAM}.train.{item}"' in page for item in (0, 1))
    assert "timed_out_run" in await ended.page(f"{RUN}/steps/check")
    with pytest.raises(PageNotFound, match="has no step"):
        await ended.page(f"{RUN}/steps/nothing")
    page = await ended.page(f"{RUN}/steps/data")
    assert "a parameter of the run" in page and "${pipeline.rows}" in page
    assert f"{RUN}/past?at=" in page
    assert "Restart from here" in page


async def test_a_failed_item_of_a_step_is_begun_again_by_itself(tables: str) -> None:
    log = started(step("train", each=[1, 2, 3]))
    log.finish("train.0")
    log.finish("train.1", end=AttemptEnd.FAILED)
    running = await (await browser_of(log.records, tables)).page(f"{RUN}/steps/train")
    assert "Stop item 2?" in running and "Stop item 1?" not in running
    assert "Begin item" not in running
    log.finish("train.2")
    page = await (await browser_of(log.records, tables)).page(f"{RUN}/steps/train")
    assert "Begin item 1 again?" in page and 'name="json:indexes.train" value="[1]"' in page
    assert "Begin item 0" not in page and "Stop item" not in page


async def test_a_gate_asks_for_each_field_of_its_form_and_what_follows_from_it_is_shown_as_it_is_written(
    gated: Browser,
) -> None:
    for address in (RUN, f"{RUN}/steps/ok"):
        page = await gated.page(address)
        assert 'name="number:inputs.epochs" type="number" step="1" min="1" value="5"' in page
        assert '<input type="hidden" name="flag:inputs.ship" value="false">' in page
        assert '<option value="production"' in page
        assert "trackside.reject-gate.v1" in page
    page = await gated.page(f"{RUN}/steps/train")
    assert "${ok.result.epochs}" in page
    assert "the result of step ok" in page and f'href="{RUN}/steps/ok"' in page
    assert "Skip this step?" in page


async def test_texts_of_publishers_are_text(gated: Browser) -> None:
    for address in (RUN, f"{RUN}/steps/data", f"{RUN}/steps/ok", f"{RUN}/steps/train"):
        assert HOSTILE not in await gated.page(address)


async def test_events_are_shown_as_a_list_and_as_a_tree_below_the_command_with_its_publisher(
    ended: Browser,
) -> None:
    page = await ended.page(f"{RUN}/events")
    assert '<ol class="chain">' in page and "published by" in page
    assert '<table class="rows events">' not in page
    listed = await ended.page(f"{RUN}/events?view=list")
    assert '<table class="rows events">' in listed and '<ol class="chain">' not in listed
    page = await ended.page(f"{RUN}/events?event=1")
    assert '<li id="event-1" aria-current="true">' in page
    assert "This stream has no event at offset 123456" in await ended.page(f"{RUN}/events?event=123456")
