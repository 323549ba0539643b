"""Spaces and histories of searches: trials asked and ended out of order, and tuners rebuilt from them."""

from collections.abc import Iterator
from typing import Any

from trackside.aggregates.search.messages import Direction
from trackside.dispatcher.advisor.advisor import make_tuner
from trackside.dispatcher.tuners.tuner import AskTellTuner

SPACE: dict[str, dict[str, Any]] = {
    "optimizer": {"type": "choice", "values": ["sgd", "adam", None]},
    "dropout": {"type": "uniform", "low": 0.0, "high": 0.5},
    "learning_rate": {"type": "loguniform", "low": 1e-5, "high": 1e-1},
    "layers": {"type": "randint", "low": 1, "high": 6},
    "batch": {"type": "choice", "values": [32]},
}
NUMBERS: dict[str, dict[str, Any]] = {
    name: found for name, found in SPACE.items() if found["type"] != "choice"
} | {
    "momentum": {"type": "qlognormal", "mu": 0.0, "sigma": 1.0, "step": 0.01},
    "noise": {"type": "normal", "mu": 3.0, "sigma": 2.0},
}
NESTED: dict[str, dict[str, Any]] = {
    "dropout": {"type": "uniform", "low": 0.0, "high": 0.5},
    "epochs": {"type": "constant", "value": 5},
    "layer": {
        "type": "choice",
        "values": [
            {
                "_name": "conv",
                "kernel": {"type": "randint", "low": 1, "high": 9},
                "rate": {"type": "lognormal", "mu": -3.0, "sigma": 1.0},
                "pool": {
                    "type": "choice",
                    "values": [
                        {"_name": "max"},
                        {"_name": "mean", "size": {"type": "qloguniform", "low": 1, "high": 64, "step": 1}},
                    ],
                },
            },
            {"_name": "dense", "units": {"type": "qnormal", "mu": 64.0, "sigma": 20.0, "step": 8.0}},
            "none",
        ],
    },
}

NEEDED: dict[str, dict[str, Any]] = {
    "asha": {"max_resource": 16},
    "hyperband": {"max_resource": 27},
    "bohb": {"max_resource": 27},
    "pbt": {"interval": 1, "population_size": 100},
    "pb2": {"interval": 1, "population_size": 100},
}
"""The options without which these tuners are refused, such that their first suggestions are new ones."""
HistoryItem = tuple[Any, ...]
Setup = tuple[dict[str, Any], dict[str, Any], int, Direction]


def numbers_in(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from numbers_in(inner)
    elif isinstance(value, int | float):
        yield float(value)


def score(parameters: dict[str, Any]) -> float:
    """Returns a value that depends on every parameter and is not linear."""
    bonus = {"sgd": 0.0, "adam": 0.3}.get(parameters.get("optimizer", "sgd"), 0.1)
    return bonus - sum(abs(number / (1.0 + abs(number)) - 0.3) for number in numbers_in(parameters))


def parameters_of(suggestion: dict[str, Any]) -> dict[str, Any]:
    """Returns the parameters of a suggestion; one of a tuner that promotes says more than these."""
    found: dict[str, Any] = suggestion["parameters"] if "from_trial" in suggestion else suggestion
    return found


def end_of(number: int, parameters: dict[str, Any]) -> HistoryItem:
    """Returns the end of a trial: every fifth is pruned, every seventh fails."""
    if number % 7 == 6:
        return ("ended", number, "failed", None, ())
    if number % 5 == 4:
        return ("ended", number, "pruned", None, ((0, 0.1), (number % 3 + 1, score(parameters) / 2)))
    return ("ended", number, "complete", score(parameters), ())


def out_of_order(trials: int, in_flight: int) -> Iterator[tuple[str, int]]:
    """Yields ("ask", n) and ("end", n) with `in_flight` at once; ends are in a fixed shuffled order."""
    running: list[int] = []
    for number in range(trials):
        if len(running) == in_flight:
            yield "end", running.pop((number * 7) % in_flight)
        yield "ask", number
        running.append(number)
    while running:
        yield "end", running.pop()


def run_search(tuner: AskTellTuner, trials: int, in_flight: int) -> list[HistoryItem]:
    history: list[HistoryItem] = []
    parameters: dict[int, dict[str, Any]] = {}
    for what, number in out_of_order(trials, in_flight):
        if what == "ask":
            suggested = tuner.ask(number)
            assert suggested is not None
            parameters[number] = suggested
            history.append(("suggested", number, suggested))
        else:
            history.append(end_of(number, parameters_of(parameters[number])))
            tuner.tell(*history[-1][1:])
    return history


def rebuilt(history: list[HistoryItem], *setup: Any) -> AskTellTuner:
    tuner = make_tuner(*setup)
    for what, *rest in history:
        (tuner.restore if what == "suggested" else tuner.tell)(*rest)
    return tuner
