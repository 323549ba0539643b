"""A search of two objectives, from its file to its front in the views, the command line and Python."""

import asyncio
import json
import secrets
from pathlib import Path
from typing import Any

from tests.integration.cli.conftest import Typed
from tests.integration.projections.harness import query
from trackside.eventlog.settings.settings import StackSettings
from trackside.sdk import Search
from trackside.sdk.search import TrialView

SPEC = """
kind: search
task_type: bent
max_trials: 24
concurrency: 2
seed: 11
tuner: {name: nsga2, options: {population_size: 8}}
objectives:
  - {name: accuracy, direction: maximize}
  - {name: latency, direction: minimize}
space:
  width: {type: randint, low: 1, high: 32}
  depth: {type: randint, low: 1, high: 9}
"""
Points = dict[int, tuple[float, float]]


def undominated(points: Points) -> list[int]:
    """Compares each with each: nobody is at least as good in both and not equal."""
    return [
        one
        for one, (accuracy, latency) in points.items()
        if not any(
            a >= accuracy and t <= latency and (a, t) != (accuracy, latency) for a, t in points.values()
        )
    ]


def best_so_far(points: Points, ends: list[int]) -> list[tuple[str, int, float]]:
    """Returns the curves of both objectives, in the order in which the trials ended."""
    found = []
    for at, (name, better) in enumerate((("accuracy", max), ("latency", min))):
        best: float | None = None
        for number in ends:
            value = points[number][at]
            best = value if best is None else better(best, value)
            found.append((name, number, best))
    return found


async def test_the_front_of_two_objectives_is_the_same_wherever_it_is_read(
    settings: StackSettings, tmp_path: Path, typed: Typed
) -> None:
    search_id = f"front-{secrets.token_hex(3)}"
    (tmp_path / "search.yaml").write_text(SPEC)
    await typed("submit", str(tmp_path / "search.yaml"), "--id", search_id, "--wait")

    search = Search.open(search_id)
    trials: list[TrialView] = await asyncio.to_thread(search.trials)
    points = {trial.number: pair for trial in trials if (pair := numbers(trial)) is not None}
    for number, (accuracy, latency) in points.items():
        width, depth = trials[number].parameters["width"], trials[number].parameters["depth"]
        assert (accuracy, latency) == (1 - 1 / (width + depth), width * 2.0 + depth), "D30: its own"
    front = undominated(points)
    assert len(trials) == 24 and 2 <= len(front) < len(points) < 24, "some are beaten, some have no number"
    assert [trial.number for trial in await asyncio.to_thread(search.front)] == front
    assert await asyncio.to_thread(search.best) is None

    shown: dict[str, Any] = json.loads(await typed("show", search_id, "--json"))
    assert sorted(row["trial"] for row in shown["front"]) == front == shown["pareto_front"]
    assert {row["trial"]: tuple(row["objective_values"]) for row in shown["front"]} == {
        number: points[number] for number in front
    }
    assert all(row["objectives"] == ["accuracy", "latency"] for row in shown["front"])
    assert {(row["source"], row["space_version"]) for row in shown["trials"]} == {("algorithm", 1)}
    text = await typed("show", search_id)
    assert "accuracy" in text and "latency" in text
    assert f"trials {', '.join(str(row['trial']) for row in shown['front'])}" in text

    await curves_and_importances(settings, typed, search_id, points)


async def curves_and_importances(
    settings: StackSettings, typed: Typed, search_id: str, points: Points
) -> None:
    dsn = settings.postgres_dsn
    ended = await query(
        dsn, "SELECT trial FROM dashboards.trials WHERE search_id = $1 ORDER BY ended_at, trial", search_id
    )
    ends = [number for (number,) in ended if isinstance(number, int) and number in points]
    curve = (
        "SELECT objective, trial, best_value FROM dashboards.best_so_far WHERE search_id = $1 "
        "ORDER BY 1, finished"
    )
    assert await query(dsn, curve, search_id) == best_so_far(points, ends)
    effects = (
        "SELECT objective, parameter FROM dashboards.parameter_effects WHERE search_id = $1 ORDER BY 1, 2"
    )
    both = [(name, parameter) for name in ("accuracy", "latency") for parameter in ("depth", "width")]
    assert await query(dsn, effects, search_id) == both
    weights = json.loads(await typed("importances", search_id, "--json"))["objectives"]
    assert [(one["objective"], one["trials"]) for one in weights] == [
        ("accuracy", len(points)),
        ("latency", len(points)),
    ]
    await correlations_of(typed, search_id)
    rows = json.loads(await typed("export-trials", search_id))
    assert {row["trial"]: (row["values"]["accuracy"], row["values"]["latency"]) for row in rows} == points


async def correlations_of(typed: Typed, search_id: str) -> None:
    """S23: the same command with another method; the table has the sign of each correlation."""
    found = json.loads(await typed("importances", search_id, "--method", "pearson", "--json"))
    assert (found["method"], len(found["objectives"])) == ("pearson", 2)
    for one in found["objectives"]:
        assert {row["parameter"] for row in one["importances"]} == {"depth", "width"}
        assert all(-1 <= row["correlation"] <= 1 for row in one["importances"])
    text = await typed("importances", search_id, "--method", "pearson")
    assert text.count("correlation") == 2 and "trials that succeeded" in text


def numbers(trial: TrialView) -> tuple[float, float] | None:
    accuracy, latency = trial.values["accuracy"], trial.values["latency"]
    return (accuracy, latency) if isinstance(accuracy, float) and isinstance(latency, float) else None
