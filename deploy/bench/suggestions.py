"""The time of a tuner for one suggestion, and to load a search's results; the reference is Optuna alone."""

from collections.abc import Mapping
from statistics import median
from typing import Any

from bench.measurements import Figure, Measurements, check_count
from trackside.dispatcher.advisor.advisor import make_tuner
from trackside.dispatcher.tuners.tuner import AskTellTuner
from trackside.eventlog.clock import monotonic_s

PAST_TRIALS = {"random": (100, 1_000, 10_000), "tpe": (100, 1_000, 2_000, 5_000, 10_000)}
HISTORY = 1_000
"""The option of tpe with which it is measured a second time."""
TIMED_SUGGESTIONS = 15
"""Suggestions that are timed at each number of past trials; the median is the figure."""
SPACE: dict[str, dict[str, Any]] = {
    "dropout": {"type": "uniform", "low": 0.0, "high": 0.5},
    "layers": {"type": "randint", "low": 1, "high": 6},
    "learning_rate": {"type": "loguniform", "low": 1e-5, "high": 1e-1},
    "momentum": {"type": "uniform", "low": 0.0, "high": 1.0},
    "optimizer": {"type": "choice", "values": ["sgd", "adam", "rmsprop"]},
}
STATEFUL = {"name": "cma-es", "past": 1_000}
"""Asked again trial by trial when it is rebuilt, which takes time that grows with the square of the past."""


def measure() -> Measurements:
    """Measures random and tpe at each number of past trials, and how long they take to load."""
    measurements = Measurements()
    count = 0
    for name, pasts in PAST_TRIALS.items():
        for past in pasts:
            tuner, rebuild_ms = _told_tuner(name, SPACE, past)
            times = _time_suggestions(tuner, past)
            optuna_times = _time_optuna(name, past)
            count += len(times)
            what = f"suggest by {name}, {past:,} ended"
            measurements.figures.append(
                Figure("-", what, median(times), "ms", median(optuna_times), "Optuna alone")
            )
            if name == "tpe" and past >= HISTORY:
                count += _measure_bounded(measurements, past, median(times))
            if name == "tpe" and past == pasts[-1]:
                measurements.figures.append(Figure("-", f"rebuild tpe, {past:,} ended", rebuild_ms, "ms"))
    numbers = {key: measurements for key, measurements in SPACE.items() if measurements["type"] != "choice"}
    name, past = str(STATEFUL["name"]), int(str(STATEFUL["past"]))
    tuner, rebuild_ms = _told_tuner(name, numbers, past)
    count += len(_time_suggestions(tuner, past))
    measurements.figures.append(Figure("-", f"rebuild {name}, {past:,} ended", rebuild_ms, "ms"))
    bounded = sum(past >= HISTORY for past in PAST_TRIALS["tpe"])
    searches = sum(map(len, PAST_TRIALS.values())) + bounded + 1
    measurements.counted.append(check_count("timed suggestions", count, searches * TIMED_SUGGESTIONS))
    return measurements


def _measure_bounded(measurements: Measurements, past: int, plain_ms: float) -> int:
    """Measures tpe with the option `history`; returns how many suggestions were timed."""
    tuner, _ = _told_tuner("tpe", SPACE, past, {"history": HISTORY})
    times = _time_suggestions(tuner, past)
    what = f"the same with history {HISTORY:,}"
    measurements.figures.append(Figure("-", what, median(times), "ms", plain_ms, "without"))
    return len(times)


def value_of(parameters: Mapping[str, Any]) -> float:
    """Returns a trial's value: not monotonic, so that there is something to learn."""
    return -abs(float(parameters["learning_rate"]) - 0.01) - abs(float(parameters["dropout"]) - 0.2)


def _told_tuner(
    name: str, space: Mapping[str, Mapping[str, Any]], past: int, options: Mapping[str, Any] | None = None
) -> tuple[AskTellTuner, float]:
    """Returns a tuner with `past` ended trials, and how long it took to load them, ms."""
    random_tuner = make_tuner(space, {"name": "random"}, 1, "maximize")
    suggested = [random_tuner.ask(number) or {} for number in range(past)]
    tuner = make_tuner(space, {"name": name, "options": options or {}}, 1, "maximize")
    began = monotonic_s()
    for number, parameters in enumerate(suggested):
        tuner.restore(number, parameters)
        tuner.tell(number, "complete", value_of(parameters))
    return tuner, (monotonic_s() - began) * 1000


def _time_suggestions(tuner: AskTellTuner, past: int) -> list[float]:
    times = []
    for number in range(past, past + TIMED_SUGGESTIONS):
        began = monotonic_s()
        parameters = tuner.ask(number)
        times.append((monotonic_s() - began) * 1000)
        assert parameters is not None
        tuner.tell(number, "complete", value_of(parameters))
    return times


def _time_optuna(name: str, past: int) -> list[float]:
    """Times `ask` of Optuna with one sampler in memory, after `past` random trials."""
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
    times = []
    for number in range(past + TIMED_SUGGESTIONS):
        if number == past:
            study.sampler = kinds[name](seed=1)
        began = monotonic_s()
        trial = study.ask(distributions)
        times.append((monotonic_s() - began) * 1000)
        study.tell(trial, value_of(trial.params))
    return times[past:]
