"""The pages and charts of summaries, over the rows of jobs."""

import json

import pytest
import pytest_asyncio

from tests.integration.console.given import Browser
from tests.integration.projections.given_jobs import GivenJob, write_jobs
from trackside.console.pages.summaries.charts import drawn_graph
from trackside.console.web.page import BadQuery
from trackside.contracts.tasks.summaries import ReportedItem, SummaryItemsReported
from trackside.projections.database.postgres import database as opened_database
from trackside.projections.tables.metrics import rows_of
from trackside.projections.writing.metric_writes import write_metrics
from trackside.summaries.event_files.values import Graph, GraphNode, Histogram, SummaryValue, TextRows
from trackside.summaries.kinds.registry import BUILT_IN

HOSTILE = "<img src=x onerror=alert(1)>"


def item(kind: str, tag: str, step: int, value: SummaryValue) -> ReportedItem:
    body = BUILT_IN[kind].pack(value).body
    return ReportedItem(kind=kind, tag=tag, step=step, time_ms=step, body=body)


def image(step: int) -> ReportedItem:
    blob = {"sha256": "a" * 64, "size_bytes": 3, "media_type": "image/png"}
    body = {"width": 8, "height": 8, **blob}
    return ReportedItem(kind="image", tag=HOSTILE, step=step, time_ms=step, body=body, **blob)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(module_tables: str) -> Browser:
    """Returns a browser over two jobs with curves, and values of several kinds in the first one."""
    rows = [
        GivenJob("one", reported={"lr": 0.1, "opt": "adam"}, metrics={"loss": {1: {0: 1.0, 10: 0.5}}}),
        GivenJob("two", reported={"lr": 0.2, "opt": "sgd"}, metrics={"loss": {1: {0: 2.0, 10: 0.25}}}),
    ]
    items = [
        item("text", "notes", 3, TextRows([HOSTILE], (1,))),
        item("histogram", "weights", 0, Histogram([0.0, 1.0], [1.0, 2.0], [3.0, 4.0])),
        item("histogram", "weights", 5, Histogram([0.0, 1.0], [1.0, 2.0], [7.0, 0.0])),
        image(0),
        image(20),
    ]
    report = SummaryItemsReported(stream="one", task_id="one", attempt=1, items=items)
    async with opened_database(module_tables) as opened:
        await write_jobs(opened, rows)
        await opened.transaction(lambda connection: write_metrics(connection, rows_of([report])))
    return Browser(module_tables)


async def test_each_kind_of_value_is_a_tab_and_curves_come_first(browser: Browser) -> None:
    page = await browser.page("/summaries")
    for kind in ("Scalars 1", "Images 1", "Histograms 1", "Texts 1", "Hyper-parameters 1"):
        assert kind in page
    assert "/data/summaries/scalars?job=one&amp;job=two&amp;tag=loss" in page


async def test_charts_have_the_curves_of_each_job_the_buckets_of_each_step_and_axes_of_hyper_parameters(
    browser: Browser,
) -> None:
    found = await browser.chart("/data/summaries/scalars?job=one&job=two&tag=loss")
    assert list(found.labels["series"]) == ["one", "two"]
    assert found.arrays["value"].tolist() == [1.0, 0.5, 2.0, 0.25]
    cells = (await browser.chart("/data/summaries/histograms?job=one&tag=weights")).arrays
    assert cells["step"].tolist() == [0, 0, 5, 5] and cells["step_high"].tolist() == [5, 5, 10, 10]
    assert cells["bin"].tolist() == [0, 1, 0, 1] and cells["count"].tolist() == [3, 4, 7, 0]
    found = await browser.chart("/data/summaries/hparams?job=one&job=two")
    assert found.arrays["lr"].tolist() == [0.1, 0.2] and found.arrays["loss"].tolist() == [0.5, 0.25]
    assert [found.labels["opt"][place] for place in found.arrays["opt"]] == ["adam", "sgd"]


async def test_the_image_of_the_last_step_up_to_the_slider_is_shown(browser: Browser) -> None:
    assert "step=20&amp;index=0" in await browser.page("/summaries?kind=image")
    page = await browser.page("/summaries?kind=image&step=19")
    assert "step=0&amp;index=0" in page and "step=20&amp;index=0" not in page
    assert 'type="range" name="step" min="0" max="20" value="19"' in page


async def test_tags_and_texts_of_tasks_are_text(browser: Browser) -> None:
    for kind in ("image", "text", "scalar"):
        page = await browser.page(f"/summaries?kind={kind}")
        assert HOSTILE not in page
    assert "&lt;img src=x" in await browser.page("/summaries?kind=text")


async def test_jobs_and_tags_are_filtered_by_an_address_of_known_jobs_at_most_20(browser: Browser) -> None:
    assert "No tag is like that" in await browser.page("/summaries?job=two&tags=nothing")
    assert "No summaries of jobs like" in (await browser.page("/summaries?jobs=nothing"))
    with pytest.raises(BadQuery, match="there is no job"):
        await browser.page("/summaries?job=nothing")
    with pytest.raises(BadQuery, match="expected at most 20"):
        await browser.page("/summaries?" + "&".join(f"job=j{number}" for number in range(21)))


def test_edges_between_nodes_of_two_scopes_are_edges_between_the_scopes() -> None:
    nodes = [
        GraphNode("input", "Placeholder", [], [], ""),
        GraphNode("a/x", "Add", ["input"], [], ""),
        GraphNode("a/y", "Mul", ["a/x:0"], [], ""),
        GraphNode("b/z", "Sub", ["a/y", "^a/x"], [], ""),
    ]
    drawn, edges, total = drawn_graph(Graph(nodes), "")
    assert [each["id"] for each in drawn] == ["input", "a", "b"] and total == 3
    assert edges == [{"source": "input", "target": "a"}, {"source": "a", "target": "b"}]
    inner, within, _ = drawn_graph(Graph(nodes), "a")
    assert [each["id"] for each in inner] == ["a/x", "a/y"]
    assert within == [{"source": "a/x", "target": "a/y"}]
    assert json.dumps(inner)
