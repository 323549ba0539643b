"""The pages of batches and pipelines, from the rows that real logs lead to."""

import re
from collections.abc import Iterator

import pytest

from tests.integration.console.given import Browser, browsing
from tests.integration.projections.harness import Written
from tests.stack import Servers
from tests.unit.aggregates.given import react
from tests.unit.aggregates.pipeline.given import define, do, end, run
from tests.unit.domain.given import STREAM, Told
from trackside.aggregates.pipeline.messages import CancelPipelineRuns
from trackside.aggregates.pipeline.schedule.schedule_messages import CreateSchedule
from trackside.console.web.page import PageNotFound

PIPELINE = f"/experiments/{STREAM}"


def defined() -> Told:
    """Returns the log of a pipeline: two versions, two runs that ended, one that did not, a schedule."""
    told = define(max_runs=2)
    run(told, parameters={"seed": 3})
    run(told)
    react(told)
    react(told)
    end(told, 1)
    end(told, 2, "FAILED")
    schema = {
        "seed": {"type": "integer", "default": 7},
        "mode": {"enum": ["fast", "<b>slow</b>"], "default": "fast"},
    }
    define(told, parameters=schema, description="<script>alert(1)</script>")
    run(told, parameters={"mode": "fast"})
    do(told, CreateSchedule, {"name": "mornings", "schedule": {"cron": "0 6 * * *"}})
    return told


@pytest.fixture(scope="module")
def pipelines(stack: Servers) -> Iterator[Browser]:
    with browsing(stack, defined().records) as browser:
        yield browser


@pytest.fixture
def batches(kept: Written) -> Browser:
    return Browser(kept.dsn, kept.log)


async def test_a_pipeline_shows_its_runs_schedules_versions_and_a_form_with_the_parameters_of_the_newest(
    pipelines: Browser,
) -> None:
    page = await pipelines.page(PIPELINE)
    assert all(f'id="run-{number}"' in page for number in (1, 2, 3))
    assert 'id="schedule-mornings"' in page and "0 6 * * *" in page
    assert 'name="text:schedule.cron" type="text" value="0 6 * * *"' in page, "a schedule is edited in place"
    assert "trackside.update-schedule.v1" in page
    assert f'href="{PIPELINE}/versions/2"' in page and f'href="{PIPELINE}/versions/1"' in page
    assert 'name="number:parameters.seed" type="number" step="1" value="7"' in page
    assert '<option value="&lt;b&gt;slow&lt;/b&gt;"' in page
    assert "<script>alert(1)" not in page


async def test_runs_of_a_pipeline_are_filtered_by_their_status_and_cancelled_before_their_end(
    pipelines: Browser,
) -> None:
    page = await pipelines.page(f"{PIPELINE}?status=FAILED")
    assert 'id="run-2"' in page and 'id="run-1"' not in page and 'id="run-3"' not in page
    page = await pipelines.page(PIPELINE)
    assert "Cancel run 3?" in page and "Cancel run 1?" not in page
    assert CancelPipelineRuns.wire_type() in page


async def test_a_version_has_its_graph_and_what_differs_and_the_durations_of_runs_have_failures_marked(
    pipelines: Browser,
) -> None:
    page = await pipelines.page(f"{PIPELINE}/versions/2")
    assert "What differs from" in page and "&#34;mode&#34;" in page
    graph = (await pipelines.chart(f"/data/pipelines/{STREAM}/2/graph")).meta
    assert [node["id"] for node in graph["nodes"]] == ["prepare", "train"]
    assert graph["edges"] == [{"source": "prepare", "target": "train"}]
    with pytest.raises(PageNotFound, match="has no version 9"):
        await pipelines.page(f"{PIPELINE}/versions/9")
    found = await pipelines.chart(f"/data/pipelines/{STREAM}/durations")
    assert list(found.arrays["number"]) == [1, 2]
    assert [note["text"] for note in found.meta["annotations"]] == ["run 2 FAILED"]


async def test_a_batch_shows_its_groups_and_tasks_by_group_state_and_text_and_stops_while_it_runs(
    batches: Browser,
) -> None:
    page = await batches.page("/experiments/tasks")
    assert 'id="group-1"' in page and 'id="group-2"' in page
    assert "3 of 3" in page and "1 of 1" in page
    assert page.count('id="task-') == 4 and "StopTasks" not in page
    second = await batches.page("/experiments/tasks?group=2")
    assert second.count('id="task-') == 1
    finished = await batches.page("/experiments/tasks?state=finished&sort=ended&order=desc")
    assert finished.count('id="task-') == 2
    assert "No task is like that" in await batches.page("/experiments/tasks?text=nothing+like+it")
    assert "StopTasks" in await batches.page("/experiments/going")


async def test_the_page_of_a_task_shows_who_started_an_attempt_and_who_adopted_it(batches: Browser) -> None:
    page = await batches.page("/tasks/tasks/tasks.1.a")
    assert '<th scope="col">started by</th><th scope="col">adopted by</th>' in page
    started, adopted = re.findall(r'<td class="mono" title="(.*?)">', page[page.index("<h2>Attempts") :])[-2:]
    assert (started, adopted) == ("i2", "i4\ufffd")
    assert "started by" not in await batches.page("/tasks/tasks/tasks.1.c"), "it was adopted by none"
