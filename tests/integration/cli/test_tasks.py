"""What `ls`, `show`, `tasks`, `devices` and `report` print, from rows in a real Postgres."""

import re
from pathlib import Path

import pytest

from tests.integration.command_line import answer, said
from tests.integration.projections.harness import Written
from trackside.cli.app import call
from trackside.cli.commands import task_now

pytestmark = pytest.mark.usefixtures("addresses")


@pytest.fixture
def filled(kept: Written) -> str:
    """Returns a database with the rows of three searches and four batches."""
    return kept.dsn


def test_batches_are_listed_beside_searches_and_shown_with_their_groups_and_the_state_of_each_task(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = {row["id"]: row for row in answer(capsys, "ls")}
    searches, batches = ("one", "two", "open"), ("tasks", "halted", "going", "serving")
    kinds = dict.fromkeys(searches, "search") | dict.fromkeys(batches, "batch")
    assert {name: row["kind"] for name, row in rows.items()} == kinds
    assert rows["tasks"]["status"] == "DONE" and rows["tasks"]["unfinished_tasks"] == 2
    text = said(capsys, "ls")
    assert "4/4" in text and "3/4" in text and "compare" in text
    assert "0/3, 1/3 ready" in text
    text = said(capsys, "show", "tasks")
    assert "4 ended of 4, 0 open; 2 did not finish" in text
    assert "1 finished, 1 cancelled, 1 timed_out_run" in text
    [line] = [line for line in text.splitlines() if line.startswith("1.a ")]
    assert line.split()[1:6] == ["digits", "ended", "w2/cpu2,cpu3", "2", "finished"]
    listed = [line.split()[0] for line in text.splitlines() if line[:2] in ("1.", "2.")]
    assert listed == ["1.a", "1.2", "1.c", "2.1"], "as the batch lists them, whenever they were tried again"
    going = said(capsys, "show", "going")
    assert "SKIPPED" not in going and "WAITING" in going
    assert "enough" in said(capsys, "show", "halted")
    shown = answer(capsys, "show", "tasks")
    assert [len(shown[name]) for name in ("groups", "tasks", "commands")] == [2, 4, 1]
    assert shown["spec"]["name"] == "compare"


def test_a_task_is_shown_with_every_placement_and_the_memory_it_took(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = said(capsys, "show", "tasks.1.a")
    assert "1.1" in text and "refused" in text and "out_of_memory: 1 GiB more than is free" in text
    assert "returned" in text and "preempted" in text
    assert "3 GiB" in text and "raised" in text
    assert "attempt 1 left behind: sleep 60 (17)" in text
    assert ["2", "2", "i2", "i4\ufffd"] in [line.split() for line in text.splitlines()], "it was adopted"
    assert "1 GiB memory, priority 9 in queue default" in text
    shown = answer(capsys, "show", "tasks.1.a")
    assert (len(shown["attempts"]), len(shown["placements"])) == (2, 5)
    assert (shown["kept_checkpoints"], shown["service"], shown["instruction_number"]) == ([], False, None)


def test_services_are_shown_with_their_readiness_their_restarts_and_their_newest_instruction(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = [line.split() for line in said(capsys, "show", "serving").splitlines()]
    assert {line[0]: line[2] for line in lines if line[1:2] == ["serve"]} == {
        "1.up": "ready",
        "1.down": "waiting",
        "1.new": "starting",
    }
    up, down = said(capsys, "show", "serving.1.up"), said(capsys, "show", "serving.1.down")
    assert '{"url": "http://127.0.0.1:1/\ufffd"}' in up
    assert "not carried out" in up and '2: {"n": 2' in up
    assert "no, waits until" in down
    shown = answer(capsys, "show", "serving.1.up")
    assert (shown["acknowledged_number"], shown["acknowledged_ok"]) == (2, False)
    assert shown["ready_at"] is not None
    shown = answer(capsys, "show", "serving.1.down")
    assert (shown["ready_at"], shown["instruction_number"], shown["acknowledged_number"]) == (None, 1, None)
    assert shown["instruction_body"] == {"n": 1, "text": "\ufffd"}


def test_a_task_with_checkpoints_is_shown_without_what_only_the_log_has_if_kafka_does_not_answer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKSIDE_KAFKA_BOOTSTRAP", "127.0.0.1:1")
    monkeypatch.setattr(task_now, "LIMIT_S", 0.2)
    assert call(["show", "one.0"]) == 0
    output = capsys.readouterr()
    assert "checkpoint@1" in output.out and "the log was not read" in output.err
    assert answer(capsys, "show", "one.0")["kept_checkpoints"] is None


def test_tasks_are_listed_by_stream_and_by_state(capsys: pytest.CaptureFixture[str]) -> None:
    ended = answer(capsys, "tasks", "--stream", "tasks", "--state", "ended")
    assert {row["task_id"] for row in ended} == {"tasks.1.a", "tasks.1.2", "tasks.1.c", "tasks.2.1"}
    queued = answer(capsys, "tasks", "--state", "queued")
    assert {row["task_id"] for row in queued} == {"serving.1.down", "going.1.2"}
    assert "tasks.2.1" in said(capsys, "tasks", "--stream", "tasks")
    assert len(answer(capsys, "tasks", "--limit", "3")) == 3
    assert call(["tasks", "--state", "endd"]) == 2
    assert "did you mean 'ended'" in capsys.readouterr().err


def test_t17_t21_devices_say_what_runs_there_and_estimates_what_was_learned_beside_what_users_ask_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = {(row["worker_id"], row["device_id"]): row for row in answer(capsys, "devices")}
    busy = rows["w2", "cpu0"]
    assert (busy["state"], busy["reserved_bytes"]) == ("busy", 2**30)
    assert sorted(busy["task_ids"]) == ["going.1.a", "going.1.c"]
    assert rows["w1", "cpu0"]["state"] == "free"
    [line] = [line for line in said(capsys, "devices").splitlines() if line.startswith("w2/cpu0")]
    assert "1 GiB" in line and "going.1.a" in line
    [digits] = [row for row in answer(capsys, "estimates") if row["task_type"] == "digits"]
    assert digits["learned_memory_bytes"] == int(digits["peak_memory_max_bytes"] * 1.1) == int(2**29 * 1.1)
    assert digits["learned_cuda_memory_bytes"] == int(2**30 * 1.1)
    assert digits["estimate_memory_bytes"] == 2**30
    [line] = [line for line in said(capsys, "estimates").splitlines() if line.startswith("digits")]
    assert "1 GiB" in line and "563" in line
    assert "learned of its type" in said(capsys, "show", "tasks.1.a")


def test_the_trials_of_a_search_are_sorted_and_selected(capsys: pytest.CaptureFixture[str]) -> None:
    every = answer(capsys, "show", "two")["trials"]
    best = answer(capsys, "show", "two", "--sort", "value", "--limit", "1")["trials"]
    assert [trial["trial"] for trial in best] == [1] and len(every) > 2
    failed = answer(capsys, "show", "two", "--status", "failed")["trials"]
    assert [trial["status"] for trial in failed] == ["FAILED"]
    assert f"the last 1 of {len(every)} trials" in said(capsys, "show", "two", "-n", "1")
    assert call(["show", "two", "--sort", "valu"]) == 2
    expected = "expected one of: trial, value, took, ended, reports; did you mean 'value'?"
    assert expected in capsys.readouterr().err
    assert call(["show", "two.0", "--sort", "value"]) == 2


def test_t22_a_report_of_a_search_has_values_before_parameters_in_one_page_that_loads_and_runs_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    [only] = answer(capsys, "report", "two")["sections"]
    assert only["columns"] == ["value", "accuracy", "hidden", "lr", "note", "optimizer"]
    assert [row["name"] for row in only["finished"]] == ["trial 1", "trial 3", "trial 0"], "best first"
    [failed] = only["failed"]
    assert (failed["ending"], failed["stage"], failed["message"][:11]) == ("failed", "TRAIN", "ValueError:")
    assert "written" in said(capsys, "report", "two", "--html", "two.html")
    text = (tmp_path / "two.html").read_text()
    assert "<script" not in text and "http" not in text and "src=" not in text
    assert "ValueError: bad\ufffdvalue" in text and "trial 3" in text
    assert call(["report", "two", "--html", "no/such/folder.html"]) == 1
    assert call(["report", "nobody"]) == 1


@pytest.mark.parametrize("columns", ["80", "120"])
def test_what_is_printed_fits_the_screen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    for name, value in (("COLUMNS", columns), ("TTY_COMPATIBLE", "1"), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)
    shown = (
        "show tasks",
        "show tasks.1.a",
        "show serving.1.up",
        "tasks",
        "devices",
        "estimates",
        "report two",
    )
    for command in ("ls", *shown):
        text = re.sub(r"\x1b\[[0-9;]*m", "", said(capsys, *command.split()))
        assert max(len(line) for line in text.splitlines()) <= min(100, int(columns)), command
