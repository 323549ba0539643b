from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from trackside.cli.app import call
from trackside.cli.render.rounds_picture import drawn_rounds, rounds_picture

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def round_row(number: int, trained: float | None, live: float | None, **changed: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"round": number, "status": "completed", "deployed": False, "approval": None}
    metrics = {"trained": trained, "deployed_metrics": live}
    row |= {name: None if value is None else {"accuracy": value} for name, value in metrics.items()}
    return row | {"stage": "deploy", "began_at": BEGAN + timedelta(hours=number)} | changed


def deployment_row(version: int, hour: float, number: int | None = None) -> dict[str, Any]:
    cause = "rollback" if number is None else "round"
    return {"cause": cause, "round": number, "version": version, "deployed_at": BEGAN + timedelta(hours=hour)}


def test_a_picture_has_a_mark_for_each_deployment_and_rollback_and_says_if_no_round_has_a_metric() -> None:
    """I41: accuracy by round, with what was deployed."""
    rounds = [round_row(1, 0.9, 0.8, deployed=True), round_row(2, None, None, status="failed")]
    rounds += [round_row(3, 0.92, 0.9)]
    drawn = drawn_rounds(rounds, [deployment_row(2, 1.5, 1), deployment_row(1, 3.5)], "accuracy")
    marks = [(each.at, each.version, each.rollback) for each in drawn.deployments]
    assert marks == [(1.0, 2, False), (3.5, 1, True)]
    picture = rounds_picture(drawn, "digits: accuracy by round", "svg").decode()
    root = ElementTree.fromstring(picture)
    texts = {element.text for element in root.iter() if element.text}
    assert {"@2", "@1", "failed", "rolled back", "round", "digits: accuracy by round"} <= texts
    picture = rounds_picture(drawn_rounds([], [], ""), "digits", "svg").decode()
    assert "no round has a metric" in picture


BAD_JOB = """\
kind: rounds
dataset: {name: feed, train_prob: 1.5}
model: digits
initial_model: digits
train: {task_type: train, trigger: {type: condition, metric: num_of_samples, operator: over, threshold: 5}}
eval: {task_type: eval}
deploy: {}
output: {url: /data/out}
"""


def test_a_bad_job_names_all_its_problems_with_their_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "job.yaml").write_text(BAD_JOB)
    assert call(["submit", "job.yaml"]) == 2
    said = capsys.readouterr().err
    assert "job.yaml:2" in said and "train_prob" in said
    assert "job.yaml:4" in said and "initial_model" in said
    assert "job.yaml:5" in said and "operator" in said
