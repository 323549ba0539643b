"""What `show` and `report` print of a run with more steps than fit, some of which were tried again."""

import asyncio

import pytest

from tests.integration.command_line import answer, said
from tests.integration.projections.test_views_of_runs import write_run
from tests.unit.aggregates.run.given import RunLog, started, step
from tests.unit.domain.given import STREAM
from trackside.aggregates.run.messages import RetryFailedSteps
from trackside.contracts.tasks import AttemptEnd

pytestmark = pytest.mark.usefixtures("addresses", "filled")


def retried() -> RunLog:
    """Returns the log of a run of 70 steps of which the first and an item of the second failed twice."""
    log = started(step("again"), step("items", each=[1, 2]), *(step(f"s{at:02}") for at in range(68)))
    for at in range(68):
        log.finish(f"s{at:02}")
    log.finish("items.0", end=AttemptEnd.FAILED)
    log.finish("items.1")
    log.finish("again", end=AttemptEnd.FAILED)
    log.command(RetryFailedSteps())
    log.finish("items.0.g1")
    log.finish("again.g1", end=AttemptEnd.TIMED_OUT_RUN)
    return log


@pytest.fixture(scope="module")
def filled(module_database: str) -> str:
    """Returns a database with the rows of the run."""
    asyncio.run(write_run(retried().records, module_database))
    return module_database


def test_steps_that_failed_come_first_and_what_is_left_out_is_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """P28: the last steps were shown, whatever their states."""
    text = said(capsys, "show", STREAM)
    assert text.partition("\nstep ")[2].splitlines()[1].startswith("again ")
    assert "50 of 70 steps, failed and open ones first; left out: 20 succeeded" in text
    assert "--limit 70 shows all" in text
    every = said(capsys, "show", STREAM, "--limit", "70")
    assert "s67" in every and "left out" not in every


def test_tasks_that_were_begun_again_are_not_listed_beside_the_newer_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """P15: the failure of before the retry is still in the log, and no longer that of the step."""
    found = answer(capsys, "show", STREAM)
    assert [row["task_id"] for row in found["failed_tasks"]] == [f"{STREAM}.again.g1"]
    assert found["failed_tasks"][0]["ending"] == "timed_out_run"
    sections = {section["name"]: section for section in answer(capsys, "report", STREAM)["sections"]}
    assert [task["task_id"] for task in sections["tasks"]["failed"]] == [f"{STREAM}.again.g1"]
    assert len(sections["items"]["finished"]) == 2 and not sections["items"]["failed"]
