"""What dashboards read of searches beside their rows: the best so far, and what parameters explain."""

from random import Random

import pytest
import pytest_asyncio

from tests.integration.projections.given_trials import GivenTrial, write_search
from tests.integration.projections.harness import insert, query


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def written(module_tables: str) -> str:
    """Returns a database with two searches that have the same trials and look for the other end."""
    random = Random(7)
    trials = [
        GivenTrial({"x": 1}, value, "FAILED" if value is None else "SUCCEEDED", 100 - at)
        for at, value in enumerate([3.0, float("nan"), 1.0, 4.0, None, 1.5])
    ]
    await write_search(module_tables, "up", trials, "maximize")
    await write_search(module_tables, "down", trials)
    trials = []
    for at in range(200):
        x, kind = random.uniform(0, 1), random.choice("ab")
        given = {"x": x, "idle": random.uniform(0, 1), "kind": kind, "sub": {"_name": kind, "n": at}}
        given["set"] = {"of": kind}
        value = x**2 + (0.2 if kind == "a" else 0)
        trials.append(GivenTrial(given, value, ended_ms=at))
    await write_search(module_tables, "many", trials, "maximize")
    return module_tables


async def test_each_trial_has_the_line_of_those_that_it_continues(written: str) -> None:
    continues = "UPDATE trials SET from_trial = $2, from_step = 3, step_limit = 9 "
    continues += "WHERE search_id = 'up' AND trial = $1"
    await insert(written, continues, [(1, 0), (2, 0), (3, 2), (5, 3)])
    rows = await query(
        written,
        "SELECT trial, first_trial, line, turn, from_step FROM dashboards.trial_lineage "
        "WHERE search_id = 'up' ORDER BY trial",
    )
    assert rows == [
        (0, 0, [0], 1, None),
        (1, 0, [0, 1], 2, 3),
        (2, 0, [0, 2], 2, 3),
        (3, 0, [0, 2, 3], 3, 3),
        (4, 4, [4], 1, None),
        (5, 0, [0, 2, 3, 5], 4, 3),
    ]


async def test_the_best_so_far_only_gets_better(written: str) -> None:
    rows = await query(
        written,
        "SELECT search_id, trial, best_value FROM dashboards.best_so_far WHERE search_id <> 'many' "
        "ORDER BY search_id, finished",
    )
    assert rows == [
        *(("down", trial, best) for trial, best in ((5, 1.5), (3, 1.5), (2, 1.0), (0, 1.0))),
        *(("up", trial, best) for trial, best in ((5, 1.5), (3, 4.0), (2, 4.0), (0, 4.0))),
    ], "in the order in which they ended, without those that failed or have no number"


async def test_an_effect_is_the_part_of_the_variance_that_a_parameter_explains(written: str) -> None:
    rows = await query(
        written, "SELECT parameter, effect, trials FROM dashboards.parameter_effects WHERE search_id = 'many'"
    )
    effects = {parameter: float(str(effect)) for parameter, effect, _ in rows}
    assert {trials for *_, trials in rows} == {200}
    assert effects["x"] > 0.8 and effects["idle"] < 0.1
    assert 0.03 < effects["kind"] < 0.3
    assert effects["sub"] == pytest.approx(effects["kind"]), "a sub-space is its name"
    assert effects["set"] == pytest.approx(effects["kind"]), "an object without a name is a value"
    few = await query(written, "SELECT parameter FROM dashboards.parameter_effects WHERE search_id = 'up'")
    assert few == [], "of one value nothing can be said"
