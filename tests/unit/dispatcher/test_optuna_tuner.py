"""Suggestions depend on seed, number and history alone, and are those of Optuna."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import optuna
import pytest
from optuna import samplers
from optuna.trial import TrialState

from tests.unit.dispatcher.tuner_histories import (
    NESTED,
    NUMBERS,
    SPACE,
    HistoryItem,
    Setup,
    end_of,
    out_of_order,
    rebuilt,
    run_search,
)
from trackside.aggregates.search.space.axes import quantized
from trackside.dispatcher.advisor.advisor import make_tuner
from trackside.dispatcher.tuners.tuner import suggestion_seed

optuna.logging.set_verbosity(optuna.logging.ERROR)
QUANTIZED = {**SPACE, "width": {"type": "quniform", "low": 10.0, "high": 95.0, "step": 20.0}}
GRID: dict[str, dict[str, Any]] = {
    "optimizer": {"type": "choice", "values": ["sgd", "adam", True, 1]},
    "layers": {"type": "randint", "low": 1, "high": 4},
    "width": {"type": "quniform", "low": 0.0, "high": 1.0, "step": 0.25},
}
MULTIVARIATE = {"name": "tpe", "options": {"multivariate": True, "n_startup_trials": 8}}
UNIVARIATE = {"name": "tpe", "options": {"multivariate": False, "constant_liar": False}}
EAGER = {"name": "tpe", "options": {"n_startup_trials": 0, "n_ei_candidates": 5}}
TUNERS: list[dict[str, Any]] = [{"name": "random"}, {"name": "tpe"}, MULTIVARIATE, UNIVARIATE, EAGER]
CMA_ES: list[dict[str, Any]] = [{}, {"with_margin": True}, {"use_separable_cma": True, "popsize": 5}]
SMALL = {"population_size": 5}
GENETIC = {"population_size": 8, "mutation_prob": 0.9}
OF_OPTUNA: list[dict[str, Any]] = [
    *TUNERS,
    *({"name": "cma-es", "options": options} for options in CMA_ES),
    *({"name": name, "options": GENETIC} for name in ("nsga2", "nsga3")),
]
SAMPLERS: dict[str, Callable[..., samplers.BaseSampler]] = {
    "random": samplers.RandomSampler,
    "tpe": samplers.TPESampler,
    "cma-es": samplers.CmaEsSampler,
    "nsga2": samplers.NSGAIISampler,
    "nsga3": samplers.NSGAIIISampler,
}
NUMERIC = {name: SPACE[name] for name in ("dropout", "layers", "learning_rate")}

ALL: list[tuple[dict[str, Any], dict[str, Any]]] = [
    *((QUANTIZED, tuner) for tuner in TUNERS),
    *((NESTED, {"name": name}) for name in ("random", "tpe", "tpe-multivariate", "qmc")),
    (GRID, {"name": "grid"}),
    (NUMBERS, {"name": "cma-es", "options": {"popsize": 5}}),
    (NUMBERS, {"name": "cma-es", "options": {"popsize": 5, "with_margin": True}}),
    *((QUANTIZED, {"name": name, "options": SMALL}) for name in ("nsga2", "nsga3", "evolution")),
    (QUANTIZED, {"name": "qmc", "options": {"qmc_type": "halton"}}),
    (QUANTIZED, {"name": "tpe", "options": {"multivariate": False, "history": 20}}),
    (NESTED, {"name": "tpe-multivariate", "options": {"constant_liar": True, "history": 20}}),
]
ALL_IDS = [f"{tuner['name']}-{place}" for place, (_, tuner) in enumerate(ALL)]


def draw_all(trial: optuna.Trial) -> None:
    trial.suggest_categorical("batch", [32])
    draw_numbers(trial)
    trial.suggest_categorical("optimizer", ["sgd", "adam", None])


def draw_numbers(trial: optuna.Trial) -> None:
    trial.suggest_float("dropout", 0.0, 0.5)
    trial.suggest_int("layers", 1, 5)
    trial.suggest_float("learning_rate", 1e-5, 1e-1, log=True)


def alone(
    make_sampler: Callable[[int], samplers.BaseSampler],
    trials: int,
    in_flight: int,
    draw: Callable[[optuna.Trial], None] = draw_all,
    end: Callable[[int, dict[str, Any]], HistoryItem] = end_of,
    directions: Sequence[str] = ("maximize",),
) -> list[dict[str, Any]]:
    study = optuna.create_study(directions=directions, sampler=make_sampler(0))
    running: dict[int, optuna.Trial] = {}
    found = []
    for what, number in out_of_order(trials, in_flight):
        if what == "ask":
            study.sampler = make_sampler(number)
            trial = running[number] = study.ask()
            draw(trial)
            found.append(trial.params)
            continue
        trial = running.pop(number)
        _, _, state, value, intermediates = end(number, trial.params)
        for step, point in intermediates:
            trial.report(point, step)
        states = {"failed": TrialState.FAIL, "pruned": TrialState.PRUNED, "complete": TrialState.COMPLETE}
        study.tell(trial, value, states[state])
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("in_flight", [1, 4])
@pytest.mark.parametrize("tuner", OF_OPTUNA, ids=lambda tuner: tuner["name"])
@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_a_hundred_suggestions_are_bit_for_bit_those_of_optuna_alone(
    tuner: dict[str, Any], in_flight: int
) -> None:
    name, options = tuner["name"], tuner.get("options", {})
    space, draw = (NUMERIC, draw_numbers) if name == "cma-es" else (SPACE, draw_all)
    expected = alone(lambda n: SAMPLERS[name](seed=suggestion_seed(7, n), **options), 100, in_flight, draw)
    history = run_search(make_tuner(space, tuner, 7, "maximize"), 100, in_flight)
    found = [item[2] for item in history if item[0] == "suggested"]
    # A child without a mutation repeats its parent: Optuna keeps it, a search draws again.
    alike = next((n for n in range(100) if expected[n] in expected[:n]), 100)
    assert alike > 60 if options is GENETIC else alike == 100
    assert found[:alike] == expected[:alike]


@pytest.mark.thorough
@pytest.mark.parametrize(("space", "tuner"), ALL, ids=ALL_IDS)
def test_a_memory_killed_at_any_event_suggests_the_same(space: dict[str, Any], tuner: dict[str, Any]) -> None:
    setup: Setup = (space, tuner, 3, "maximize")
    history = run_search(make_tuner(*setup), 60, 4)
    # The others are asked all over again, or slow: fewer places must do.
    every = 1 if tuner["name"] in ("random", "grid", "tpe", "tpe-multivariate") else 5
    for place, (what, number, *rest) in enumerate(history):
        if what == "suggested" and number % every == 0:
            assert rebuilt(history[:place], *setup).ask(number) == rest[0]


@pytest.mark.thorough
def test_a_store_that_reorders_keys_changes_no_suggestion() -> None:
    reordered = dict(reversed(SPACE.items()))
    for tuner in TUNERS:
        one, other = (make_tuner(space, tuner, 5, "maximize") for space in (SPACE, reordered))
        assert run_search(one, 30, 2) == run_search(other, 30, 2)


def test_a_grid_gives_each_point_once_in_an_order_of_its_seed_and_then_none() -> None:
    memory = make_tuner(GRID, {"name": "grid"}, 1, "maximize")
    points = list(itertools.takewhile(bool, (memory.ask(n) for n in range(100))))
    assert len(points) == 4 * 3 * 5
    assert len({str(point) for point in points}) == len(points)
    assert memory.ask(60) is None
    assert {point["width"] for point in points if point} == {0.0, 0.25, 0.5, 0.75, 1.0}
    for name, space in (("grid", GRID), ("random", SPACE)):
        one, other = (make_tuner(space, {"name": name}, seed, "maximize") for seed in (1, 2))
        assert [one.ask(n) for n in range(9)] != [other.ask(n) for n in range(9)]


def test_quniform_rounds_and_then_clips_and_choices_that_python_takes_for_equal_stay_apart() -> None:
    assert [quantized(v, 0.5, 10.0, 3.0) for v in (0.6, 1.6, 4.4, 9.9)] == [0.5, 3.0, 3.0, 9.0]
    memory = make_tuner(QUANTIZED, {"name": "random"}, 1, "maximize")
    widths = {(memory.ask(n) or {})["width"] for n in range(100)}
    # 10 / 20 rounds to 0 only at 10 itself, and 100 is clipped to 95.
    assert widths == {20.0, 40.0, 60.0, 80.0, 95.0}
    space = {"x": {"type": "choice", "values": [True, 1, 1.0, "1", None]}}
    memory = make_tuner(space, {"name": "random"}, 1, "maximize")
    seen = [repr((memory.ask(n) or {})["x"]) for n in range(5)]
    assert sorted(seen) == ["'1'", "1", "1.0", "None", "True"]
    assert memory.ask(5) is None


@pytest.mark.parametrize("value", [float("nan"), None, float("inf"), float("-inf")])
def test_an_end_without_a_usable_value_harms_no_later_suggestion(value: float | None) -> None:
    memory = make_tuner(SPACE, {"name": "tpe", "options": {"n_startup_trials": 2}}, 1, "maximize")
    for number in range(12):
        assert memory.ask(number) is not None
        memory.tell(number, "complete", value if number % 2 else 0.5)
        memory.tell(number, "failed")


def test_neither_a_gap_in_the_numbers_nor_parameters_that_the_space_does_not_have_are_a_lesson() -> None:
    memory = make_tuner(SPACE, {"name": "random"}, 1, "maximize")
    with pytest.raises(ValueError, match="trial 3 with 0 trials known"):
        memory.ask(3)
    with pytest.raises(ValueError, match="trial 2 with 0 trials known"):
        memory.restore(2, {})
    setup: Setup = (SPACE, {"name": "tpe", "options": {"n_startup_trials": 1}}, 5, "maximize")
    odd: list[HistoryItem] = [
        ("suggested", 0, {**history_item(setup, 0), "layers": 99}),
        ("ended", 0, "complete", 1e6, ()),
        ("suggested", 1, {"quite": "another"}),
        ("ended", 1, "complete", 1e6, ()),
    ]
    plain: list[HistoryItem] = [("suggested", n, history_item(setup, n)) for n in range(2)]
    plain += [("ended", n, "failed", None, ()) for n in range(2)]
    assert rebuilt(odd, *setup).ask(2) == rebuilt(plain, *setup).ask(2)


def history_item(setup: Setup, number: int) -> dict[str, Any]:
    return dict(run_search(make_tuner(*setup), number + 1, 1)[2 * number][2])


@pytest.mark.thorough
def test_without_sub_spaces_multivariate_tpe_suggests_what_tpe_does() -> None:
    tuners = (make_tuner(SPACE, {"name": name}, 4, "maximize") for name in ("tpe", "tpe-multivariate"))
    one, other = (run_search(tuner, 40, 3) for tuner in tuners)
    assert one == other
