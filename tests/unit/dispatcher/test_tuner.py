"""No two trials of a search have equal parameters unless the space is exhausted; then the tuner says so."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.dispatcher.tuner_histories import HistoryItem, Setup, end_of, rebuilt, run_search, score
from trackside.aggregates.search.space.axes import axes_of, point_at, size
from trackside.dispatcher.advisor.advisor import make_tuner
from trackside.dispatcher.tuners.tuner import AskTellTuner

TUNERS = ("random", "grid", "tpe", "tpe-multivariate", "qmc")
SIZES = {"nsga2": {"population_size": 3}, "evolution": {"population_size": 3}, "cma-es": {"popsize": 5}}
STATEFUL: list[dict[str, Any]] = [{"name": name, "options": options} for name, options in SIZES.items()]
INTEGERS: dict[str, dict[str, Any]] = {
    "a": {"type": "randint", "low": 0, "high": 4},
    "b": {"type": "quniform", "low": 0.2, "high": 2.0, "step": 0.5},
}
PLAIN = st.one_of(
    st.builds(lambda n: {"type": "randint", "low": 0, "high": n}, st.integers(1, 4)),
    st.builds(
        lambda values: {"type": "choice", "values": values},
        st.lists(st.sampled_from([1, 1.0, True, "1", None, 2]), min_size=1, max_size=4),
    ),
    st.builds(
        lambda low, high: {"type": "quniform", "low": low, "high": low + high, "step": 1.0},
        st.floats(-2, 2),
        st.floats(0, 2),
    ),
    st.just({"type": "constant", "value": "c"}),
    st.just({"type": "uniform", "low": 1.5, "high": 1.5}),
)
MEMBERS = st.dictionaries(st.sampled_from("pq"), PLAIN, max_size=2)
BRANCHES = st.dictionaries(st.sampled_from("xyz"), MEMBERS, max_size=3)
CHOICES = st.builds(
    lambda branches, scalars: {
        "type": "choice",
        "values": [*scalars, *({"_name": name, **inner} for name, inner in branches.items())] or ["only"],
    },
    BRANCHES,
    st.lists(st.sampled_from(["x", 1]), max_size=2),
)
SPACES = st.dictionaries(st.sampled_from("abc"), PLAIN | CHOICES, min_size=1, max_size=3)


def text(parameters: Any) -> str:
    return json.dumps(parameters, sort_keys=True)


def exhausted(memory: AskTellTuner, most: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while (parameters := memory.ask(len(found))) is not None:
        found.append(parameters)
        assert len(found) <= most
        memory.tell(*end_of(len(found) - 1, parameters)[1:])
    assert memory.ask(len(found)) is None
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("name", TUNERS)
@settings(max_examples=10, deadline=None)
@given(space=SPACES, seed=st.integers(0, 2**53))
def test_each_point_is_suggested_once_until_all_are(name: str, space: dict[str, Any], seed: int) -> None:
    axes = axes_of(space)
    points = size(axes)
    assert points is not None
    space = {**space, "wide": {"type": "constant", "value": 1}} if points > 40 else space
    if points > 40:  # a run of this length is enough to see repeats
        found = run_search(make_tuner(space, {"name": name}, seed, "maximize"), 40, 3)
        suggested = [item[2] for item in found if item[0] == "suggested"]
        assert len({text(parameters) for parameters in suggested}) == 40
        return
    suggested = exhausted(make_tuner(space, {"name": name}, seed, "maximize"), points)
    listed = [point_at(axes, index) for index in range(points)]
    assert sorted(map(text, suggested)) == sorted(map(text, listed))
    assert len({text(parameters) for parameters in listed}) == points


@pytest.mark.thorough
@pytest.mark.parametrize("tuner", [{"name": "tpe"}, *STATEFUL], ids=lambda tuner: tuner["name"])
def test_a_search_rebuilt_among_repeats_goes_on_alike(tuner: dict[str, Any]) -> None:
    setup: Setup = (INTEGERS, tuner, 5, "maximize")
    history = run_search(make_tuner(*setup), 20, 3)
    for place, (what, number, *rest) in enumerate(history):
        if what == "suggested" and number % 4 == 3:
            assert rebuilt(history[:place], *setup).ask(number) == rest[0]
    assert rebuilt(history, *setup).ask(20) is None


@pytest.mark.thorough
def test_a_trial_that_a_user_added_is_not_suggested_again() -> None:
    added = {"a": 2, "b": 1.0}
    for name in TUNERS:
        memory = rebuilt([("suggested", 0, added)], INTEGERS, {"name": name}, 1, "maximize")
        found = list(itertools.takewhile(bool, (memory.ask(n) for n in range(1, 50))))
        assert len(found) == 19
        assert added not in found


def test_a_batch_goes_through_its_sets_in_their_order_and_what_gives_nothing_new_is_exhausted() -> None:
    sets = [{"a": 3, "b": 1.0}, {"a": 0, "b": 0.3}, {"a": 1, "b": 2.0}]
    setup: Setup = (INTEGERS, {"name": "batch", "options": {"sets": sets}}, 1, "maximize")
    assert exhausted(make_tuner(*setup), 3) == sets
    history: list[HistoryItem] = [("suggested", 0, sets[0]), ("ended", 0, "complete", score(sets[0]), ())]
    assert rebuilt(history, *setup).ask(1) == sets[1]
    space = {"x": {"type": "qnormal", "mu": 0.0, "sigma": 0.01, "step": 1.0}}
    memory = make_tuner(space, {"name": "random"}, 1, "maximize")
    assert memory.ask(0) == {"x": 0.0}
    assert memory.ask(1) is None
