"""The pages of incremental jobs, models and datasets, from the rows and the log of a real job."""

from collections.abc import Iterator

import numpy as np
import pytest

from tests.integration.console.given import Browser, browser_of, browsing
from tests.integration.projections.test_views_of_rounds import ONE_PARTITION, eventful
from tests.stack import Servers
from tests.unit.aggregates.rounds.given import DATASET_ID, JOB, MODEL, JobLog
from trackside.aggregates.rounds.messages import ApproveDeploy, RejectDeploy, RollbackModel
from trackside.console.web.page import PageNotFound

PAGE = f"/experiments/{JOB}"


@pytest.fixture(scope="module")
def job(stack: Servers) -> Iterator[Browser]:
    with browsing(stack, eventful().records, ONE_PARTITION) as browser:
        yield browser


def waiting() -> JobLog:
    """Returns the log of a job whose first deployment waits for a person."""
    log = JobLog(next_accuracy=lambda number: 0.9)
    log.create(deploy={"gate": {"timeout_s": 100}})
    log.work()
    log.append(100)
    log.work()
    return log


async def test_a_job_shows_its_rounds_with_their_results_its_triggers_samples_and_services(
    job: Browser,
) -> None:
    page = await job.page(PAGE)
    assert all(f'href="{PAGE}/rounds/{number}"' in page for number in (1, 2, 3, 4))
    assert page.index('id="round-4"') < page.index('id="round-1"')
    assert 'data-status="deployed"' in page and 'data-status="failed"' in page
    assert "accuracy_delta &gt; 0.1" in page and 'id="service-' in page
    assert 'aria-label="train released"' in page and 'aria-label="train waiting"' in page


async def test_the_metric_of_rounds_is_a_chart_with_deployments_as_annotations(job: Browser) -> None:
    found = await job.chart(f"/data/rounds/{JOB}/metric?metric=accuracy")
    assert list(found.arrays["round"]) == [1, 2, 3]
    np.testing.assert_allclose(found.arrays["trained"], [0.7, 0.72, 0.95])
    notes = found.meta["annotations"]
    assert sorted(note["x"] for note in notes) == [1, 3]
    assert {note["kind"] for note in notes} == {"deployed"}


async def test_a_version_that_was_live_can_be_live_again_and_that_which_is_cannot(job: Browser) -> None:
    page = await job.page(PAGE)
    assert f"Make {MODEL}@4 live again?" in page and f"Make {MODEL}@2 live again?" not in page
    assert RollbackModel.wire_type() in page


async def test_a_round_shows_why_it_was_decided_so_and_the_bill_of_the_live_model_goes_back_to_the_first(
    job: Browser,
) -> None:
    page = await job.page(f"{PAGE}/rounds/2")
    assert 'id="stage-train"' in page and f'href="/tasks/{JOB}/{JOB}.r2.train.1"' in page
    assert "accuracy_delta" in page and "Conditions of the deployment" in page
    with pytest.raises(PageNotFound, match="no round 77"):
        await job.page(f"{PAGE}/rounds/77")
    with pytest.raises(PageNotFound, match="no round abc"):
        await job.page(f"{PAGE}/rounds/abc")
    page = await job.page(f"{PAGE}/bill")
    assert f'id="version-{MODEL}-2"' in page and f'id="version-{MODEL}-1"' in page
    assert f'href="{PAGE}/rounds/1"' in page and "none: it is the first" in page


async def test_a_deployment_that_waits_offers_both_decisions(tables: str) -> None:
    page = await (await browser_of(waiting().records, tables, ONE_PARTITION)).page(PAGE)
    assert ApproveDeploy.wire_type() in page and RejectDeploy.wire_type() in page
    assert 'data-status="waiting"' in page


async def test_models_and_datasets_show_the_jobs_that_train_with_them_and_models_their_versions(
    job: Browser,
) -> None:
    page = await job.page(f"/experiments/{MODEL}")
    assert all(f'id="version-{number}"' in page for number in (1, 2, 3, 4))
    assert f'href="{PAGE}"' in page
    version = await job.page(f"/experiments/{MODEL}/versions/2")
    assert "What it was made of" in version and f'href="{PAGE}/rounds/1"' in version
    with pytest.raises(PageNotFound, match="has no version 99"):
        await job.page(f"/experiments/{MODEL}/versions/99")
    assert f'id="job-{JOB}"' in await job.page(f"/experiments/{DATASET_ID}")
