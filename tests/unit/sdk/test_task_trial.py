"""What a task calls: inside a worker, and without one."""

import json
import math
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trackside.sdk import FetchError, Task, trial
from trackside.sdk.in_task.channel import ScreenChannel
from trackside.worker.child.channel import worker_channel
from trackside.worker.child.channel.worker_channel import WorkerChannel


class FakeWorker:
    def __init__(self, parameters: dict[str, Any]) -> None:
        self.ours, theirs = socket.socketpair()
        self.channel = WorkerChannel(theirs, parameters)
        self.theirs = theirs
        self._lines = self.ours.makefile("rb")

    def next(self) -> dict[str, Any]:
        return self.next_of_any_type()[1]

    def next_of_any_type(self) -> tuple[str, dict[str, Any]]:
        found: dict[str, Any] = json.loads(self._lines.readline())
        return found.pop("type"), found

    def close(self) -> None:
        self.channel.close()
        self._lines.close()
        self.ours.close()
        self.theirs.close()


@pytest.fixture
def worker() -> Iterator[FakeWorker]:
    made = FakeWorker({"lr": 0.1})
    trial.connect(made.channel)
    yield made
    trial.connect(ScreenChannel())
    made.close()


def test_d39_outside_of_a_search_the_defaults_are_the_parameters(
    worker: FakeWorker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """D39: in a search those that it gives win; outside the same script runs by itself, and prints."""
    assert trial.parameters({"lr": 1, "epochs": 2}) == {"lr": 0.1, "epochs": 2}
    for name in ("TRACKSIDE_PARAMETERS", "TRACKSIDE_TASK_ID", "TRACKSIDE_ATTEMPT"):
        monkeypatch.delenv(name, raising=False)
    trial.parameters()["lr"] = 5  # of a copy
    assert trial.parameters() == {"lr": 0.1}
    trial.connect(ScreenChannel())
    assert trial.parameters() == {}
    assert trial.parameters({"lr": 1}) == {"lr": 1}
    assert (trial.task_id(), trial.attempt(), trial.should_stop()) == ("alone", 1, False)
    assert trial.next_parameters({"lr": 1}) is None, "D19"
    trial.report(0.5)
    trial.log(loss=2.0)
    trial.result(0.75)
    assert capsys.readouterr().out == "report step=0 value=0.5\nlog step=0 loss=2\nresult value=0.75\n"
    monkeypatch.setenv("TRACKSIDE_TASK_ID", "digits-1.7")
    monkeypatch.setenv("TRACKSIDE_ATTEMPT", "2")
    assert (trial.task_id(), trial.attempt()) == ("digits-1.7", 2)
    monkeypatch.setenv("TRACKSIDE_PARAMETERS", '{"lr": 0.5}')
    assert trial.parameters({"lr": 1}) == {"lr": 0.5}
    monkeypatch.setenv("TRACKSIDE_PARAMETERS", "[1]")
    with pytest.raises(ValueError, match="TRACKSIDE_PARAMETERS: expected a JSON object"):
        ScreenChannel().parameters()


@pytest.fixture
def much_company(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes what is held back for company wait until it is sent by a call, however slow the machine is."""
    monkeypatch.setattr(worker_channel, "REPORT_EVERY_S", 3_600.0)


@pytest.mark.usefixtures("much_company")
def test_the_first_report_goes_at_once_and_those_right_behind_it_together(worker: FakeWorker) -> None:
    for value in (0.1, 0.2, 0.3):
        trial.report(value)
    worker.channel.flush()
    assert [item[:2] for item in worker.next()["reports"]] == [[0, 0.1]]
    assert [item[:2] for item in worker.next()["reports"]] == [[1, 0.2], [2, 0.3]]


def test_a_report_held_back_for_company_is_sent_without_another_call(worker: FakeWorker) -> None:
    trial.report(1)
    worker.next()
    trial.report(2)
    assert [item[:2] for item in worker.next()["reports"]] == [[1, 2.0]]


def test_the_result_comes_behind_all_reports_and_only_once(worker: FakeWorker) -> None:
    trial.report(1)
    trial.report(2)
    trial.result(3)
    trial.result(4)
    trial.report(5)
    worker.channel.flush()
    assert "reports" in worker.next() and "reports" in worker.next()
    assert worker.next() == {"final": 3.0}
    assert [item[1] for item in worker.next()["reports"]] == [5.0]
    assert worker.channel.final_value == 3.0
    assert [item[1] for item in worker.channel.reports] == [1.0, 2.0, 5.0]


def test_a_dict_decides_by_its_default_or_leaves_it_to_the_search_what_counts(worker: FakeWorker) -> None:
    trial.report({"default": 0.5, "loss": 2.0}, step=7)
    assert [item[:2] for item in worker.next()["reports"]] == [[7, {"value": 0.5, "others": {"loss": 2.0}}]]
    assert [[item[0], item[1], item[3]] for item in worker.next()["points"]] == [["loss", 7, 2.0]]
    trial.result({"accuracy": 0.5, "latency": math.inf})
    worker.channel.flush()
    assert worker.next() == {"final": {"value": None, "others": {"accuracy": 0.5, "latency": "inf"}}}


@pytest.mark.usefixtures("much_company")
def test_points_without_a_step_are_counted_by_tag(worker: FakeWorker) -> None:
    trial.log(loss=1.0, accuracy=0.1)
    trial.log(loss=0.9)
    trial.metric("loss", 0.8)
    worker.channel.flush()
    said = [[item[0], item[1]] for item in worker.next()["points"]]
    assert said == [["loss", 0], ["accuracy", 0], ["loss", 1], ["loss", 2]]


def test_a_step_that_does_not_rise_is_refused(worker: FakeWorker) -> None:
    trial.report(-math.inf, step=4)
    assert worker.next()["reports"][0][1] == "-inf"
    with pytest.raises(ValueError, match="step 4 is not above the last one; expected 5 or more"):
        trial.report(1, step=4)


def test_what_is_no_number_is_refused_where_it_was_said(worker: FakeWorker) -> None:
    with pytest.raises(TypeError, match="report: expected a number, got NoneType"):
        trial.report(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="loss: expected a number, got str"):
        trial.result({"default": 0.5, "loss": "much"})  # type: ignore[dict-item]
    for numbers in ({}, {str(number): 0.5 for number in range(101)}):
        with pytest.raises(ValueError, match="result: expected 1 to 100 numbers"):
            trial.result(numbers)
    task = Task()
    task.load()
    with pytest.raises(NotImplementedError, match="Task has no train"):
        task.train("cpu")


def test_d19_what_is_said_behind_other_parameters_is_of_another_trial(worker: FakeWorker) -> None:
    answers = {1: {"lr": 0.5}, 2: None}
    worker.channel.answer = answers.__getitem__
    trial.report(1.0, step=4)
    trial.result(1.0)
    assert trial.next_parameters({"epochs": 3}) == {"lr": 0.5, "epochs": 3}
    assert trial.parameters() == {"lr": 0.5}
    trial.report(2.0)
    assert worker.channel.requests == 1
    assert [item[:2] for item in worker.channel.reports] == [(0, 2.0)]
    assert trial.next_parameters() is None
    trial.report(3.0)
    worker.channel.flush()
    heard = [worker.next_of_any_type() for _ in range(8)]
    assert [name for name, _ in heard] == [
        "reports", "final", "parameters-request", "answer-received", "reports", "parameters-request",
        "answer-received", "reports",
    ]  # fmt: skip
    assert worker.channel.final_value is None
    assert [item[:2] for item in worker.channel.reports] == [(0, 2.0), (1, 3.0)]


def test_d19_parameters_that_the_type_of_the_task_refuses_raise(worker: FakeWorker) -> None:
    def refuse(_request: int) -> None:
        raise ValueError("$.lr: expected a number")

    worker.channel.answer = refuse
    with pytest.raises(ValueError, match="expected a number"):
        trial.next_parameters()
    assert worker.channel.requests == 1


def test_a_checkpoint_is_wanted_after_the_report_of_the_last_step_until_it_is_saved(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRACKSIDE_STEP_LIMIT", "2")
    trial.connect(ScreenChannel())
    wanted = []
    for step in range(3):
        trial.report(0.5, step)
        wanted.append(trial.should_checkpoint())
        if wanted[-1]:
            trial.checkpoint(step + 1, {"step": step})
    assert wanted == [False, True, False]


def test_without_a_worker_files_here_are_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(trial, "_channel", ScreenChannel())
    path = tmp_path / "a b.npz"
    assert trial.fetch({"uri": path.as_uri(), "sha256": "0" * 64, "size_bytes": 1}) == path
    with pytest.raises(FetchError, match="without a worker") as raised:
        trial.fetch({"uri": "store:sha256/" + "0" * 64})
    assert raised.value.code == "store_missing"
