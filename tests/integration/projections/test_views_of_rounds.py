"""Rows of incremental jobs as the views give them: stages under Sedna's names, samples, deployments."""

import json
from collections.abc import Iterator

import pytest

from tests.integration.projections.harness import Written, append, given_rows, log_of, query, write_rows
from tests.stack import Servers
from tests.unit.aggregates.rounds.given import BETTER, DATASET_ID, JOB, MODEL, JobLog
from trackside.aggregates.rounds.messages import RollbackModel
from trackside.aggregates.rounds.view import IncrementalJobView
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.domain.display.view import QueriedRows
from trackside.domain.rows.table import ViewRow
from trackside.domain.tasks.task import Task
from trackside.projections.reading.reads import open_read_models
from trackside.replay.rebuild.rebuild import rebuild

ONE_PARTITION = Topics(event_partitions=1)
ACCURACIES = {1: 0.7, 2: 0.72, 3: 0.95}
STATES = "SELECT stage, state FROM dashboards.stages WHERE job_id = $1 AND round = $2 ORDER BY stage DESC"


def eventful() -> JobLog:
    """Returns the log of a job: two deployments, one refusal, a rollback, and a round that has failed."""
    log = JobLog(next_accuracy=lambda number: ACCURACIES.get(number, 0.5))
    log.create(deploy={"trigger": BETTER, "services": [{"name": "api", "task_type": "serve"}]})
    log.work()
    for _ in range(3):
        log.append(100)
        log.work()
    log.command(JOB, RollbackModel(version=2))
    log.work()
    log.append(100)
    log.do(task_of(log, "trackside.write-manifest"))
    log.end(task_of(log, "train"), error="CudaOutOfMemory")
    return log


def task_of(log: JobLog, task_type: str) -> Task:
    return next(task for task in log.tasks() if task.task_type == task_type)


@pytest.fixture(scope="module")
def worked(stack: Servers) -> Iterator[Written]:
    events, topics = eventful().records, ONE_PARTITION
    with given_rows(stack.postgres_dsn, lambda log: append(log, topics, events), topics) as written:
        yield written


@pytest.fixture
def rows(worked: Written) -> str:
    return worked.dsn


async def test_stages_have_the_states_and_conditions_of_sedna(rows: str) -> None:
    """I1: also those that only events of tasks say; the list is append-only, the newest last."""
    completed = [(stage, "Completed") for stage in ("train", "eval", "deploy")]  # as sorted backwards
    assert await query(rows, STATES, JOB, 1) == completed
    assert await query(rows, STATES, JOB, 2) == completed
    assert await query(rows, STATES, JOB, 4) == [("train", "Failed")]
    assert await query(rows, STATES, JOB, 5) == [("train", "Waiting")]
    ascend = "waiting_at <= ready_at AND ready_at <= starting_at AND starting_at <= running_at"
    times = (
        f"SELECT {ascend} AND running_at <= ended_at FROM dashboards.stages WHERE job_id = $1 AND round = 1"  # noqa: S608
    )
    assert set(await query(rows, times, JOB)) == {(True,)}
    ((text,),) = await query(rows, "SELECT conditions FROM dashboards.job_conditions WHERE job_id = $1", JOB)
    conditions = json.loads(str(text))
    types = ["Waiting", "Ready", "Starting", "Running", "Completed"]
    found = [(condition["stage"], condition["type"]) for condition in conditions]
    assert found[:15] == [(stage, name) for stage in ("Train", "Eval", "Deploy") for name in types]
    assert found[-2:] == [("Train", "Failed"), ("Train", "Waiting")]
    assert conditions[0].keys() == {"type", "status", "stage", "lastHeartbeatTime", "lastTransitionTime"}
    ended = [condition["lastTransitionTime"] for condition in conditions]
    assert ended == sorted(ended)


async def test_samples_are_used_released_or_wait(rows: str) -> None:
    """I22: what a failed round had is what waits for the next one."""
    found = await query(
        rows,
        "SELECT round, begin_sample, end_sample, samples, state FROM dashboards.sample_ranges "
        "WHERE job_id = $1 AND use = 'train' ORDER BY begin_sample, state",
        JOB,
    )
    used = [(number + 1, 100 * number, 100 * number + 100, 80, "used") for number in range(3)]
    assert found == [*used, (4, 300, 400, 80, "released"), (None, 300, 400, 80, "waiting")]


async def test_what_was_deployed_until_when_and_what_services_have_now(rows: str) -> None:
    found = await query(
        rows,
        "SELECT update_number, cause, round, version, state, open, live_until IS NULL "
        "FROM dashboards.deployments WHERE job_id = $1 ORDER BY update_number",
        JOB,
    )
    assert found == [
        (1, "round", 1, 2, "deployed", "[]", False),
        (2, "round", 3, 4, "deployed", "[]", False),
        (3, "rollback", None, 2, "deployed", "[]", True),
    ]
    services = await query(
        rows, "SELECT name, replica, state, version, is_live FROM dashboards.inference_services"
    )
    assert services == [("api", 1, "ready", 2, True)]


async def test_metrics_by_round_are_numbers_for_a_chart(rows: str) -> None:
    """I41: new and old metrics, and which of them led to a deployment."""
    found = await query(
        rows,
        "SELECT round, metric, trained, deployed, round(delta::numeric, 3)::float8 AS delta, was_deployed "
        "FROM dashboards.round_metrics WHERE job_id = $1 ORDER BY round_metrics.round",
        JOB,
    )
    assert found == [
        (1, "accuracy", 0.7, 0.5, 0.2, True),
        (2, "accuracy", 0.72, 0.7, 0.02, False),
        (3, "accuracy", 0.95, 0.7, 0.25, True),
    ]


async def shown(view: IncrementalJobView, dsn: str) -> tuple[ViewRow, QueriedRows]:
    """Returns the row of the job, and the rows that its page queries."""
    async with open_read_models(dsn) as models:
        row = await models.row("rounds.one", JOB)
        assert row is not None
        return row, {name: await models.rows(f"rounds.{name}", JOB) for name in view.page_queries}


async def test_a_page_of_a_job_is_made_of_its_rows(rows: str) -> None:
    view = IncrementalJobView()
    row, queried = await shown(view, rows)
    facts = dict(view.facts(row, queried))
    assert facts["rounds"] == "4 ended, the last failed"
    assert str(facts["live"]).startswith(f"{MODEL}@2 ")
    assert facts["live at"] == f"store:sha256/{row['live_sha256']}", "I41: the URL of the model"
    assert str(facts["trained at"]).startswith("store:sha256/") and facts["trained at"] != facts["live at"]
    assert facts["dataset"] == f"{DATASET_ID}: 400 samples"
    results = [cells[-3] for cells in view.tables(row, queried)[0].rows]
    assert results == ["deployed", "kept", "deployed", "failed"]
    async with open_read_models(rows) as models:
        newest = await models.rows("rounds.newest", 5)
    assert view.listed(newest[0]).runs == f"{MODEL}@2 live"


@pytest.mark.parametrize("how", [AttemptEnd.FAILED, AttemptEnd.LOST])
async def test_a_page_says_why_a_service_is_not_ready(tables: str, how: AttemptEnd) -> None:
    job = JobLog()
    job.create(deploy={"services": [{"name": "api", "task_type": "serve"}]})
    job.end(task_of(job, "serve"), error="ValueError" if how is AttemptEnd.FAILED else "", how=how)
    view = IncrementalJobView()
    await write_rows(await log_of(job.records, ONE_PARTITION), tables, ONE_PARTITION)
    row, queried = await shown(view, tables)
    (task,) = {each["task_id"] for each in queried["inference_services"]}
    said = dict(view.facts(row, queried))["api.1"]
    expected = {
        AttemptEnd.FAILED: f"attempt 1: ValueError: it was ValueError; see trackside logs {task}",
        AttemptEnd.LOST: "attempt 1: its worker was lost; a round waits until it runs again",
    }
    assert said == expected[how]


async def test_rows_that_are_rebuilt_are_the_same(worked: Written) -> None:
    report = await rebuild(worked.log, ONE_PARTITION, worked.dsn)
    assert report.equal
    assert (report.rows["rounds"], report.rows["stages"], report.rows["deployments"]) == (4, 11, 3)
