"""What `ls` and `show` print of runs, and of a stream that was forgotten, from rows in a real Postgres."""

import asyncio
from pathlib import Path

import pytest

from tests.integration.command_line import answer, said
from tests.integration.projections.test_forgotten_streams import forgotten_log
from tests.integration.projections.test_views_of_runs import write_run
from tests.unit.aggregates.run.given import RunLog, started, step
from tests.unit.domain.given import STREAM
from trackside.aggregates.run.messages import RetryFailedSteps
from trackside.contracts.tasks.tasks import AttemptEnd

pytestmark = pytest.mark.usefixtures("addresses")


def waiting() -> RunLog:
    """Returns the log of a run with a step that failed, and a gate that waits."""
    log = started(
        step("data", parameters={"rows": "${pipeline.rows}", "note": "x" * 40}),
        step("train", "data", each=[1, 2, 3]),
        step("check", "data"),
        step("ok", "train", gate={"message": "good enough?", "form": {"score": {"type": "number"}}}),
        step("late", "ok", parameters={"score": "${ok.result.score}"}),
        parameters={"rows": 3},
        schemas={"rows": {"type": "integer"}},
    )
    log.finish("data")
    for index in range(3):
        log.finish(f"train.{index}")
    log.finish("check", end=AttemptEnd.TIMED_OUT_RUN)
    return log


@pytest.fixture(scope="module")
def filled(module_tables: str) -> str:
    """Returns a database with the rows of the run."""
    asyncio.run(write_run(waiting().records, module_tables))
    return module_tables


def test_a_run_is_listed_and_shown_with_each_step_its_state_and_parameters_and_how_to_approve_its_gate(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """P28, P29: also of steps that have failed, which the original leaves out."""
    [row] = answer(capsys, "ls")
    assert (row["kind"], row["id"], row["ended_steps"], row["steps"]) == ("run", STREAM, 3, 5)
    assert "3/5" in said(capsys, "ls")
    text = said(capsys, "show", STREAM)
    of_steps = text.partition("\nstep ")[2].partition("\n\n")[0]
    lines = {line.split()[0]: line.split() for line in of_steps.splitlines() if line}
    assert lines["data"][1] == "succeeded"
    assert "note=xxxxxxxxxx" in text and "x" * 25 not in text
    assert lines["train"][1:3] == ["succeeded", "3/3"]
    assert "timed_out" in lines["check"] and "timed_out_run" in lines["check"]
    assert lines["late"][1] == "pending"
    assert "steps       3 ended of 5, 1 open, 1 failed; 60% done" in text
    assert f"gate ok: trackside approve {STREAM} ok --set score=..." in text and "good enough?" in text
    assert max(map(len, text.splitlines())) <= 100


def test_programs_get_steps_by_state_and_time_gates_and_failed_tasks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    steps = answer(capsys, "show", STREAM, "--status", "timed_out")["steps"]
    assert [row["step"] for row in steps] == ["check"]
    steps = answer(capsys, "show", STREAM, "--sort", "took", "--limit", "2")["steps"]
    assert len(steps) == 2 and steps[0]["took_s"] >= steps[1]["took_s"]
    found = answer(capsys, "show", STREAM)
    assert [row["step"] for row in found["steps"]] == ["data", "train", "check", "ok", "late"]
    assert found["steps"][0]["parameters"] == {"rows": 3, "note": "x" * 40}
    assert [(row["step"], row["state"]) for row in found["gates"]] == [("ok", "open")]
    assert [row["task_id"] for row in found["failed_tasks"]] == [f"{STREAM}.check"]
    assert found["progress"] == 0.6


def test_the_report_of_a_run_has_its_steps_with_results_its_failures_and_a_picture(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """P27, P28: in one page without scripts, whose texts are escaped."""
    text = said(capsys, "report", STREAM)
    assert "check timed_out (timed_out_run)" in text
    assert "train succeeded: 3 finished, 0 did not finish" in text
    assert "tasks RUNNING: 1 finished, 1 did not finish" in text
    said(capsys, "report", STREAM, "--html", str(tmp_path / "run.html"))
    page = (tmp_path / "run.html").read_text()
    assert page.count("<svg") >= 1 and "<script" not in page
    for name in ("data", "train", "check", "ok", "late"):
        assert f">{name}</" in page
    assert "<td>timed_out</td>" in page
    found = answer(capsys, "report", STREAM)
    assert {node["name"]: node["state"] for node in found["picture"]}["check"] == "timed_out"
    assert found["picture"][4]["needs"] == ["ok"]


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


def test_steps_that_failed_come_first_others_are_counted_and_tasks_that_were_begun_again_are_left_out(
    tables: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """P28, P15: the last steps were shown; the failure of before the retry is still in the log."""
    asyncio.run(write_run(retried().records, tables))
    monkeypatch.setenv("TRACKSIDE_POSTGRES_DSN", tables)
    text = said(capsys, "show", STREAM)
    assert text.partition("\nstep ")[2].splitlines()[1].startswith("again ")
    assert "50 of 70 steps, failed and open ones first; left out: 20 succeeded" in text
    assert "--limit 70 shows all" in text
    every = said(capsys, "show", STREAM, "--limit", "70")
    assert "s67" in every and "left out" not in every
    found = answer(capsys, "show", STREAM)
    assert [row["task_id"] for row in found["failed_tasks"]] == [f"{STREAM}.again.g1"]
    assert found["failed_tasks"][0]["ending"] == "timed_out_run"
    sections = {section["name"]: section for section in answer(capsys, "report", STREAM)["sections"]}
    assert [task["task_id"] for task in sections["tasks"]["failed"]] == [f"{STREAM}.again.g1"]
    assert len(sections["items"]["finished"]) == 2 and not sections["items"]["failed"]


def test_lists_and_pages_show_that_a_stream_was_forgotten(
    tables: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(write_run(forgotten_log()[0], tables))
    monkeypatch.setenv("TRACKSIDE_POSTGRES_DSN", tables)
    (line,) = [line for line in said(capsys, "ls").splitlines() if STREAM in line]
    assert line.split()[2:4] == ["FORGOTTEN", "2/2"]
    shown = said(capsys, "show", STREAM)
    assert "FORGOTTEN, was DONE" in shown and "2 trials: 2 SUCCEEDED" in shown
    for command in (("ls",), ("show", STREAM)):
        assert '"forgotten": true' in said(capsys, *command, "--json")
