"""A search of two objectives, from its file to its front in the views, the command line and Python."""

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.integration.command_line import said
from tests.integration.installed import installation, variables_of
from tests.integration.projections.harness import query
from tests.stack import Servers
from trackside.eventlog.settings import StackSettings
from trackside.sdk import Search
from trackside.sdk.search import TrialView

TASK = '''
from trackside.sdk import Task, trial


class Bent(Task):
    """Gains accuracy by width, and pays with latency; one width in four ends without a number."""

    def train(self, device):
        asked = trial.parameters()
        width, depth = asked["width"], asked["depth"]
        if width % 8 == 7:
            trial.result({"accuracy": float("nan"), "latency": 1.0})
            return
        trial.report(width / 32, step=0)
        trial.result({"accuracy": 1 - 1 / (width + depth), "latency": width * 2.0 + depth, "loss": 0.5})
'''
CATALOGUE = """
tasks:
  bent: {entry: "bent:Bent", path: .}
"""
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
Typed = Callable[..., Awaitable[str]]
Points = dict[int, tuple[float, float]]


@pytest.fixture(scope="module")
def settings(
    stack: Servers, module_database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StackSettings]:
    folder = tmp_path_factory.mktemp("services")
    (folder / "bent.py").write_text(TASK)
    (folder / "catalogue.yaml").write_text(CATALOGUE)
    with installation(stack, module_database, folder, folder / "catalogue.yaml") as settings:
        yield settings


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
    """Gives the curves of both objectives, in the order in which the trials ended."""
    found = []
    for at, (name, better) in enumerate((("accuracy", max), ("latency", min))):
        best: float | None = None
        for number in ends:
            value = points[number][at]
            best = value if best is None else better(best, value)
            found.append((name, number, best))
    return found


@pytest.fixture
def typed(
    settings: StackSettings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Typed:
    """Gives a function that runs `trackside`, which must end with 0, and gives what it printed."""
    for name, value in variables_of(settings).items():
        monkeypatch.setenv(name, value)
    return partial(asyncio.to_thread, said, capsys)


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
    """The database has no other search."""
    dsn = settings.postgres_dsn
    ended = await query(dsn, "SELECT trial FROM dashboards.trials ORDER BY ended_at, trial")
    ends = [number for (number,) in ended if isinstance(number, int) and number in points]
    curve = "SELECT objective, trial, best_value FROM dashboards.best_so_far ORDER BY 1, finished"
    assert await query(dsn, curve) == best_so_far(points, ends)
    effects = "SELECT objective, parameter FROM dashboards.parameter_effects ORDER BY 1, 2"
    both = [(name, parameter) for name in ("accuracy", "latency") for parameter in ("depth", "width")]
    assert await query(dsn, effects) == both
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
