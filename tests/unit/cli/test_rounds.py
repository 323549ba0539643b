from datetime import UTC, datetime, timedelta
from typing import Any
from xml.etree import ElementTree

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
