"""How long a tuner takes for one suggestion, and to take in a search's past; beside it, Optuna alone."""

from collections.abc import Mapping
from statistics import median
from typing import Any

from bench.figures import Figure, Findings, equal
from trackside.dispatcher.advisor.tuner_factory import make_tuner
from trackside.dispatcher.tuners.tuner import AskTellTuner
from trackside.eventlog.clock import monotonic_s

PAST = (100, 1_000, 10_000)
ASKED = 15
"""Suggestions that are timed at each length of the past; the median counts."""
SPACE: dict[str, dict[str, Any]] = {
    "dropout": {"type": "uniform", "low": 0.0, "high": 0.5},
    "layers": {"type": "randint", "low": 1, "high": 6},
    "learning_rate": {"type": "loguniform", "low": 1e-5, "high": 1e-1},
    "momentum": {"type": "uniform", "low": 0.0, "high": 1.0},
    "optimizer": {"type": "choice", "values": ["sgd", "adam", "rmsprop"]},
}
STATEFUL = {"name": "cma-es", "past": 1_000}
"""Asked again trial by trial when it is rebuilt, which takes time that grows with the square of the past."""


def measured() -> Findings:
    """Measures random and tpe at each length of the past, and how long a past takes to be taken in."""
    found = Findings()
    asked = 0
    for name in ("random", "tpe"):
        for past in PAST:
            memory, rebuild_ms = _ours(name, SPACE, past)
            ours = _timed(memory, past)
            alone = _alone(name, past)
            asked += len(ours)
            what = f"suggest by {name}, {past:,} ended"
            found.figures.append(Figure("-", what, median(ours), "ms", median(alone), "Optuna alone"))
            if name == "tpe" and past == PAST[-1]:
                found.figures.append(Figure("-", f"rebuild tpe, {past:,} ended", rebuild_ms, "ms"))
    numbers = {key: found for key, found in SPACE.items() if found["type"] != "choice"}
    name, past = str(STATEFUL["name"]), int(str(STATEFUL["past"]))
    memory, rebuild_ms = _ours(name, numbers, past)
    asked += len(_timed(memory, past))
    found.figures.append(Figure("-", f"rebuild {name}, {past:,} ended", rebuild_ms, "ms"))
    found.counted.append(equal("timed suggestions", asked, (2 * len(PAST) + 1) * ASKED))
    return found


def value_of(parameters: Mapping[str, Any]) -> float:
    """Gives a trial's value: a bend, so that there is something to learn."""
    return -abs(float(parameters["learning_rate"]) - 0.01) - abs(float(parameters["dropout"]) - 0.2)


def _ours(name: str, space: Mapping[str, Mapping[str, Any]], past: int) -> tuple[AskTellTuner, float]:
    """Gives a memory that was told so many ended trials, and how long that took, ms."""
    chance = make_tuner(space, {"name": "random"}, 1, "maximize")
    suggested = [chance.ask(number) or {} for number in range(past)]
    memory = make_tuner(space, {"name": name}, 1, "maximize")
    began = monotonic_s()
    for number, parameters in enumerate(suggested):
        memory.restore(number, parameters)
        memory.tell(number, "complete", value_of(parameters))
    return memory, (monotonic_s() - began) * 1000


def _timed(memory: AskTellTuner, past: int) -> list[float]:
    taken = []
    for number in range(past, past + ASKED):
        began = monotonic_s()
        parameters = memory.ask(number)
        taken.append((monotonic_s() - began) * 1000)
        assert parameters is not None
        memory.tell(number, "complete", value_of(parameters))
    return taken


def _alone(name: str, past: int) -> list[float]:
    """Times `ask` of Optuna with one sampler that lives on, in memory, after as many random trials."""
    import optuna

    kinds: Mapping[str, Any] = {"random": optuna.samplers.RandomSampler, "tpe": optuna.samplers.TPESampler}
    distributions: dict[str, Any] = {
        "dropout": optuna.distributions.FloatDistribution(0.0, 0.5),
        "layers": optuna.distributions.IntDistribution(1, 5),
        "learning_rate": optuna.distributions.FloatDistribution(1e-5, 1e-1, log=True),
        "momentum": optuna.distributions.FloatDistribution(0.0, 1.0),
        "optimizer": optuna.distributions.CategoricalDistribution(["sgd", "adam", "rmsprop"]),
    }
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=1))
    taken = []
    for number in range(past + ASKED):
        if number == past:
            study.sampler = kinds[name](seed=1)
        began = monotonic_s()
        trial = study.ask(distributions)
        taken.append((monotonic_s() - began) * 1000)
        study.tell(trial, value_of(trial.params))
    return taken[past:]
