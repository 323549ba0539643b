"""A tuner with the option `history` learns from the best and the latest ended trials only."""

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.dispatcher.tuner_histories import NESTED, SPACE, run_search, score
from trackside.dispatcher.advisor.advisor import make_tuner
from trackside.dispatcher.tuners import bounded_history
from trackside.dispatcher.tuners.optuna_tuner import OptunaTuner

HISTORY = 50
TRIALS = 90
CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (SPACE, {"name": "tpe"}),
    (SPACE, {"name": "tpe", "options": {"multivariate": False, "constant_liar": True}}),
    (SPACE, {"name": "tpe", "options": {"constant_liar": True, "n_ei_candidates": 5}}),
    (NESTED, {"name": "tpe-multivariate", "options": {"constant_liar": True}}),
]
IDS = ["tpe", "univariate", "liar", "nested"]


def bounded(tuner: dict[str, Any], history: int = HISTORY) -> dict[str, Any]:
    return {**tuner, "options": {**tuner.get("options", {}), "history": history}}


ends = st.one_of(
    st.tuples(st.just("complete"), st.integers(-3, 3)),
    st.tuples(st.just("pruned"), st.none() | st.tuples(st.integers(0, 3), st.sampled_from([0.5, math.nan]))),
)


def rank(trial: int, end: tuple[str, Any], maximize: bool) -> bounded_history.Rank:
    if end[0] == "complete":
        return bounded_history.rank_of_complete(trial, float(end[1]), maximize)
    return bounded_history.rank_of_pruned(trial, end[1], maximize)


@pytest.mark.thorough
@given(st.lists(ends, max_size=90), st.integers(1, 60), st.booleans(), st.randoms())
def test_what_counts_depends_on_the_trials_and_not_on_the_order_of_their_ends(
    found: list[tuple[str, Any]], size: int, maximize: bool, random: Any
) -> None:
    ranks = [rank(trial, end, maximize) for trial, end in enumerate(found)]
    shuffled = random.sample(ranks, len(ranks))
    one, other = bounded_history.BoundedHistory(size), bounded_history.BoundedHistory(size)
    for each in ranks:
        one.add(each)
    for each in shuffled:
        other.add(each)
    counted = one.trials()
    assert counted == other.trials() == sorted(set(counted))
    assert len(counted) == min(size, len(found))
    best = [each[-1] for each in sorted(ranks)[: bounded_history.best_of(size)]]
    assert set(best) <= set(counted)
    others = [trial for trial in range(len(found)) if trial not in best]
    assert set(counted) - set(best) == set(others[len(others) - (len(counted) - len(best)) :])


def test_as_many_good_trials_count_as_tpe_takes_and_their_ranks_are_those_of_tpe() -> None:
    from optuna.samplers._tpe.sampler import default_gamma

    assert all(bounded_history.best_of(size) == default_gamma(size) for size in range(1, 1_000))
    assert bounded_history.rank_of_complete(1, 2.0, True) < bounded_history.rank_of_complete(0, 1.0, True)
    assert bounded_history.rank_of_complete(0, 1.0, False) < bounded_history.rank_of_complete(1, 2.0, False)
    in_order = [
        bounded_history.rank_of_complete(0, 1.0, True),
        bounded_history.rank_of_complete(1, 1.0, True),
        bounded_history.rank_of_complete(2, -math.inf, True),
        bounded_history.rank_of_pruned(3, (5, 0.1), True),
        bounded_history.rank_of_pruned(4, (4, 0.9), True),
        bounded_history.rank_of_pruned(5, (4, 0.8), True),
        bounded_history.rank_of_pruned(6, (4, math.nan), True),
        bounded_history.rank_of_pruned(7, None, True),
    ]
    assert all(a < b for a, b in pairwise(in_order))


@pytest.mark.thorough
@pytest.mark.parametrize(("space", "tuner"), CASES, ids=IDS)
def test_suggestions_are_alike_until_more_trials_end(space: dict[str, Any], tuner: dict[str, Any]) -> None:
    plain = run_search(make_tuner(space, tuner, 3, "maximize"), TRIALS, 4)
    limited = run_search(make_tuner(space, bounded(tuner), 3, "maximize"), TRIALS, 4)
    alike = [a == b for a, b in zip(plain, limited, strict=True)].index(False)
    assert sum(item[0] == "ended" and item[2] != "failed" for item in plain[:alike]) > HISTORY
    assert run_search(make_tuner(space, bounded(tuner, 1_000), 3, "maximize"), TRIALS, 4) == plain


def test_good_trials_that_are_long_ago_are_not_forgotten() -> None:
    """The first trials are good in a small part of the space, and hundreds of bad ones follow."""
    space = {"x": {"type": "uniform", "low": 0.0, "high": 1.0}}
    tuner = make_tuner(space, bounded({"name": "tpe"}, 60), 1, "maximize")
    for number in range(400):
        x = 0.3 + number / 10_000 if number < 30 else number / 400
        tuner.restore(number, {"x": x})
        tuner.tell(number, "complete", 1.0 if number < 30 else -x)
    assert isinstance(tuner, OptunaTuner) and tuner._bounded is not None
    assert tuner._bounded.trials() == [*range(6), *range(346, 400)]
    suggested = [tuner.ask(400 + at) or {} for at in range(10)]
    assert sum(0.2 < each["x"] < 0.4 for each in suggested) >= 3


def test_imported_results_count_too() -> None:
    tuner = make_tuner(SPACE, bounded({"name": "tpe"}), 1, "maximize")
    other = make_tuner(SPACE, {"name": "tpe"}, 1, "maximize")
    source = make_tuner(SPACE, {"name": "random"}, 2, "maximize")
    for number in range(HISTORY):
        parameters = source.ask(number) or {}
        for each in (tuner, other):
            each.add_result(parameters, score(parameters))
    assert tuner.ask(0) == other.ask(0)
    assert isinstance(tuner, OptunaTuner)
    for number in range(HISTORY, 2 * HISTORY):
        parameters = source.ask(number) or {}
        tuner.add_result(parameters, score(parameters))
    assert tuner._bounded is not None and len(tuner._bounded.trials()) == HISTORY
