"""Suggestions depend on seed, number and history alone, and are those of Optuna."""

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import optuna
import pytest
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.trial import TrialState

from trackside.dispatcher.samplers import Direction, SearchMemory, problem, quantized, suggestion_seed

SPACE: dict[str, dict[str, Any]] = {
    "optimizer": {"type": "choice", "values": ["sgd", "adam", None]},
    "dropout": {"type": "uniform", "low": 0.0, "high": 0.5},
    "learning_rate": {"type": "loguniform", "low": 1e-5, "high": 1e-1},
    "layers": {"type": "randint", "low": 1, "high": 6},
    "batch": {"type": "choice", "values": [32]},
}
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
IDS = ["random", "tpe", "multivariate", "univariate", "eager"]

Item = tuple[Any, ...]


def score(parameters: dict[str, Any]) -> float:
    bonus = {"sgd": 0.0, "adam": 0.3}.get(parameters["optimizer"], 0.1)
    layers = int(parameters["layers"])
    return bonus - abs(float(parameters.get("dropout", 0.2)) - 0.2) - 0.01 * layers


def end_of(number: int, parameters: dict[str, Any]) -> Item:
    """Every fifth trial is pruned, every seventh fails."""
    if number % 7 == 6:
        return ("ended", number, "failed", None, ())
    if number % 5 == 4:
        return ("ended", number, "pruned", None, ((0, 0.1), (number % 3 + 1, score(parameters) / 2)))
    return ("ended", number, "complete", score(parameters), ())


def out_of_order(trials: int, in_flight: int) -> Iterator[tuple[str, int]]:
    """Yields ("ask", n) and ("end", n) with `in_flight` at once, ends coming in a fixed shuffled order."""
    running: list[int] = []
    for number in range(trials):
        if len(running) == in_flight:
            yield "end", running.pop((number * 7) % in_flight)
        yield "ask", number
        running.append(number)
    while running:
        yield "end", running.pop()


Setup = tuple[dict[str, Any], dict[str, Any], int, Direction]


def lived(memory: SearchMemory, trials: int, in_flight: int) -> list[Item]:
    """Runs a search and gives its history."""
    history: list[Item] = []
    parameters: dict[int, dict[str, Any]] = {}
    for what, number in out_of_order(trials, in_flight):
        if what == "ask":
            suggested = memory.ask(number)
            assert suggested is not None
            parameters[number] = suggested
            history.append(("suggested", number, suggested))
        else:
            history.append(end_of(number, parameters[number]))
            memory.tell(*history[-1][1:])
    return history


def rebuilt(history: list[Item], *setup: Any) -> SearchMemory:
    memory = SearchMemory(*setup)
    for what, *rest in history:
        if what == "suggested":
            memory.recall(*rest)
        else:
            memory.tell(*rest)
    return memory


def alone(sampler_of: Callable[[int], BaseSampler], trials: int, in_flight: int) -> list[dict[str, Any]]:
    """Runs the same search with nothing but Optuna, reseeded for each trial."""
    study = optuna.create_study(direction="maximize", sampler=sampler_of(0))
    running: dict[int, optuna.Trial] = {}
    found = []
    for what, number in out_of_order(trials, in_flight):
        if what == "ask":
            study.sampler = sampler_of(number)
            trial = running[number] = study.ask()
            trial.suggest_categorical("batch", [32])
            trial.suggest_float("dropout", 0.0, 0.5)
            trial.suggest_int("layers", 1, 5)
            trial.suggest_float("learning_rate", 1e-5, 1e-1, log=True)
            trial.suggest_categorical("optimizer", ["sgd", "adam", None])
            found.append(trial.params)
            continue
        trial = running.pop(number)
        _, _, state, value, intermediates = end_of(number, trial.params)
        for step, point in intermediates:
            trial.report(point, step)
        states = {"failed": TrialState.FAIL, "pruned": TrialState.PRUNED, "complete": TrialState.COMPLETE}
        study.tell(trial, value, states[state])
    return found


@pytest.fixture(autouse=True)
def _quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)


@pytest.mark.parametrize("in_flight", [1, 4])
@pytest.mark.parametrize("tuner", TUNERS, ids=IDS)
def test_a_hundred_suggestions_are_bit_for_bit_those_of_optuna_alone(
    tuner: dict[str, Any], in_flight: int
) -> None:
    sampler = RandomSampler if tuner["name"] == "random" else TPESampler
    expected = alone(
        lambda n: sampler(seed=suggestion_seed(7, n), **tuner.get("options", {})), 100, in_flight
    )
    history = lived(SearchMemory(SPACE, tuner, 7, "maximize"), 100, in_flight)
    suggested = [item[2] for item in history if item[0] == "suggested"]
    assert suggested == expected
    assert len({str(parameters) for parameters in suggested}) > 90


@pytest.mark.parametrize(
    ("space", "tuner"),
    [*((QUANTIZED, tuner) for tuner in TUNERS), (GRID, {"name": "grid"})],
    ids=[*IDS, "grid"],
)
def test_a_memory_killed_at_any_event_suggests_next_what_it_would_have(
    space: dict[str, Any], tuner: dict[str, Any]
) -> None:
    setup: Setup = (space, tuner, 3, "maximize")
    history = lived(SearchMemory(*setup), 60, 4)
    for place, (what, number, *rest) in enumerate(history):
        if what == "suggested":
            assert rebuilt(history[:place], *setup).ask(number) == rest[0]


def test_a_rebuilt_memory_goes_on_to_the_end_like_the_one_it_replaces() -> None:
    setup: Setup = (QUANTIZED, {"name": "tpe"}, 11, "minimize")
    history = lived(SearchMemory(*setup), 60, 4)
    memory = rebuilt(history[:50], *setup)
    for what, number, *rest in history[50:]:
        if what == "suggested":
            assert memory.ask(number) == rest[0]
        else:
            memory.tell(number, *rest)


def test_a_store_that_reorders_keys_changes_no_suggestion() -> None:
    reordered = dict(reversed(SPACE.items()))
    for tuner in TUNERS:
        one, other = (SearchMemory(space, tuner, 5, "maximize") for space in (SPACE, reordered))
        assert lived(one, 30, 2) == lived(other, 30, 2)


def test_suggestions_that_won_in_the_log_replace_those_asked_here() -> None:
    setup: Setup = (SPACE, {"name": "tpe"}, 5, "maximize")
    history = lived(SearchMemory(*setup), 40, 1)
    memory = SearchMemory(*setup)
    for what, number, *rest in history:
        if what == "suggested":
            memory.ask(number)
            won = {**rest[0], "dropout": 0.25, "optimizer": "sgd"}
            memory.recall(number, won)
        else:
            memory.tell(number, "complete", number / 10)
    log: list[Item] = []
    for number in range(40):
        log += [("suggested", number, {**history[2 * number][2], "dropout": 0.25, "optimizer": "sgd"})]
        log += [("ended", number, "complete", number / 10, ())]
    assert memory.ask(40) == rebuilt(log, *setup).ask(40)


def test_a_grid_gives_each_point_once_and_then_none() -> None:
    memory = SearchMemory(GRID, {"name": "grid"}, 1, "maximize")
    points = list(itertools.takewhile(bool, (memory.ask(n) for n in range(100))))
    assert len(points) == 4 * 3 * 5
    assert len({str(point) for point in points}) == len(points)
    assert memory.ask(60) is None
    assert {point["width"] for point in points if point} == {0.0, 0.25, 0.5, 0.75, 1.0}


def test_another_seed_gives_another_order_and_other_suggestions() -> None:
    for name, space in (("grid", GRID), ("random", SPACE)):
        one, other = (SearchMemory(space, {"name": name}, seed, "maximize") for seed in (1, 2))
        assert [one.ask(n) for n in range(9)] != [other.ask(n) for n in range(9)]


def test_quniform_rounds_to_multiples_and_then_clips() -> None:
    assert [quantized(v, 0.5, 10.0, 3.0) for v in (0.6, 1.6, 4.4, 9.9)] == [0.5, 3.0, 3.0, 9.0]
    memory = SearchMemory(QUANTIZED, {"name": "random"}, 1, "maximize")
    widths = {(memory.ask(n) or {})["width"] for n in range(100)}
    # 10 / 20 rounds to 0 only at 10 itself, and 100 is clipped to 95.
    assert widths == {20.0, 40.0, 60.0, 80.0, 95.0}


def test_choices_that_python_takes_for_equal_stay_apart() -> None:
    space = {"x": {"type": "choice", "values": [True, 1, 1.0, "1", None]}}
    memory = SearchMemory(space, {"name": "random"}, 1, "maximize")
    seen = {repr((memory.ask(n) or {})["x"]) for n in range(60)}
    assert seen == {"True", "1", "1.0", "'1'", "None"}


@pytest.mark.parametrize("value", [float("nan"), None, float("inf"), float("-inf")])
def test_an_end_without_a_usable_value_harms_no_later_suggestion(value: float | None) -> None:
    memory = SearchMemory(SPACE, {"name": "tpe", "options": {"n_startup_trials": 2}}, 1, "maximize")
    for number in range(12):
        assert memory.ask(number) is not None
        memory.tell(number, "complete", value if number % 2 else 0.5)
        memory.tell(number, "failed")


def test_a_gap_in_the_numbers_is_named() -> None:
    memory = SearchMemory(SPACE, {"name": "random"}, 1, "maximize")
    with pytest.raises(ValueError, match="trial 3 with 0 trials known"):
        memory.ask(3)
    with pytest.raises(ValueError, match="trial 2 with 0 trials known"):
        memory.recall(2, {})


@pytest.mark.parametrize(
    ("space", "tuner", "path", "words"),
    [
        (SPACE, {"name": "tpee"}, "$.tuner.name", "did you mean 'tpe'"),
        (SPACE, {"name": "grid"}, "$.space.dropout", "can't enumerate type 'uniform'"),
        (GRID, {"name": "grid", "options": {"seed": 1}}, "$.tuner.options.seed", "grid takes none"),
        (
            SPACE,
            {"name": "tpe", "options": {"n_startup_trial": 1}},
            "$.tuner.options.n_startup_trial",
            "did you mean",
        ),
        (
            SPACE,
            {"name": "tpe", "options": {"n_startup_trials": True}},
            "$.tuner.options.n_startup_trials",
            "number",
        ),
        (SPACE, {"name": "tpe", "options": {"multivariate": 1}}, "$.tuner.options.multivariate", "true or"),
        ({"x": {"type": "normal"}}, {"name": "tpe"}, "$.space.x.type", "expected choice"),
        (
            {"x": {"type": "randint", "low": 0, "high": 10**6}},
            {"name": "grid"},
            "$.space",
            "limit of 100000",
        ),
    ],
)
def test_a_tuner_that_cannot_search_a_space_is_refused_with_place_and_reason(
    space: dict[str, Any], tuner: dict[str, Any], path: str, words: str
) -> None:
    fault = problem(space, tuner)
    assert fault is not None
    assert fault[0] == path
    assert words in fault[1]


@pytest.mark.parametrize("tuner", TUNERS, ids=IDS)
def test_a_fitting_tuner_has_no_problem(tuner: dict[str, Any]) -> None:
    assert problem(QUANTIZED, tuner) is None
    assert problem(GRID, {"name": "grid", "options": {}}) is None


def test_a_service_that_checks_tuners_loads_neither_optuna_nor_numpy() -> None:
    program = (
        "import sys\n"
        "from trackside.dispatcher import assessors, lanes, samplers\n"
        "assert samplers.problem({'x': {'type': 'uniform'}}, {'name': 'grid'})\n"
        "assert assessors.problem({'name': 'nope'})\n"
        "assert not {'optuna', 'numpy'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
