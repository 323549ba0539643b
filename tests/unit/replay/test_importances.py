from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from trackside.aggregates.search.messages import SearchSpec, TrialStatus
from trackside.aggregates.search.space.space import Choice, Space
from trackside.aggregates.search.state import Search, Trial
from trackside.replay.derive.importances import (
    EqualValuesError,
    TooFewTrialsError,
    flattened,
    importances,
    parameter_correlations,
)

pytestmark = pytest.mark.thorough  # Optuna takes seconds to be imported


def search_of(trials: Sequence[tuple[dict[str, Any], float | None]]) -> Search:
    space: Space = {"x": Choice(type="choice", values=[1])}
    spec = SearchSpec(task_type="t", max_trials=1_000, space=space)
    search = Search("s", spec, 1, 0)
    for number, (parameters, value) in enumerate(trials):
        status = TrialStatus.FAILED if value is None else TrialStatus.SUCCEEDED
        search.trials.append(Trial(number, parameters, 0, 0, 1, 1, status, value))
    return search


def drawn(random: Random) -> tuple[dict[str, Any], float]:
    parameters: dict[str, Any] = {"x": random.uniform(-1, 1), "idle": random.uniform(0, 1), "fixed": 5}
    parameters["kind"] = random.choice(["a", "b", True, None])
    parameters["layer"] = {"_name": "conv", "kernel": random.randrange(1, 9)}
    return parameters, -(parameters["x"] ** 2)


def test_what_made_the_value_comes_first() -> None:
    random = Random(7)
    trials = [drawn(random) for _ in range(120)]
    found, count = importances(search_of([*trials, ({"x": 1.0}, None), ({"x": 0.0}, float("inf"))]))
    assert count == 120
    assert found[0].parameter == "x" and found[0].share > 0.5
    assert {one.parameter for one in found} == {"x", "idle", "kind", "fixed", "layer", "layer.kernel"}
    assert {one.parameter: one.share for one in found}["fixed"] == 0
    assert sum(one.share for one in found) == pytest.approx(1, abs=1e-4)


def test_ten_values_are_enough_nine_are_not_and_a_search_over_nothing_has_no_shares() -> None:
    random = Random(7)
    trials = [drawn(random) for _ in range(10)]
    assert len(importances(search_of(trials))[0]) == 6
    with pytest.raises(TooFewTrialsError, match="s has 9 trials with a value"):
        importances(search_of(trials[1:]))
    found, _ = importances(search_of([({"x": 1}, float(at)) for at in range(12)]))
    assert [(one.parameter, one.share) for one in found] == [("x", 0.0)]
    given = {"a": 1, "b": {"_name": "n", "c": {"_name": "m", "d": 2}}}
    assert flattened(given) == {"a": 1, "b": "n", "b.c": "m", "b.c.d": 2}


def test_a_correlation_has_a_sign_and_skips_what_is_no_number() -> None:
    random = Random(7)
    trials = [({**drawn(random)[0], "down": float(at)}, 10.0 - at) for at in range(40)]
    found, count = parameter_correlations(search_of([*trials, ({"down": 1.0}, None)]))
    assert count == 40
    assert found[0].parameter == "down" and found[0].correlation == pytest.approx(-1)
    skipped = {one.parameter: one.skipped for one in found if one.skipped}
    assert skipped == {"kind": "categorical", "layer": "categorical", "fixed": "constant"}


def test_three_different_values_are_enough_for_a_correlation() -> None:
    with pytest.raises(TooFewTrialsError, match="s has 2 trials with a value; importances need 3"):
        parameter_correlations(search_of([({"x": 1}, 1.0), ({"x": 2}, 2.0), ({"x": 3}, None)]))
    with pytest.raises(EqualValuesError, match=r"all 5 trials of s have the value 0\.5"):
        parameter_correlations(search_of([({"x": at}, 0.5) for at in range(5)]))
    found, _ = parameter_correlations(search_of([({"x": at}, float(at)) for at in range(3)]))
    assert found[0].correlation == pytest.approx(1)
