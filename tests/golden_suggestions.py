"""What each tuner suggests in 20 trials, as the log has it, and the files where that is committed.

Suggestions are a promise: the same seed and history give the same parameters, in the next release too. So a
file changes only where that is meant, such as with a new release of Optuna: `TRACKSIDE_WRITE_GOLDEN=1 pytest
tests/unit/dispatcher/test_golden_suggestions.py tests/integration/dispatcher/test_gp.py` writes the files;
review what changed.

Whole numbers, texts and choices must be equal. Other numbers may differ by TOLERANCE of their size: a sampler
takes logarithms and eigenvectors, whose last bits depend on the processor that NumPy is compiled for.
"""

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.unit.dispatcher.tuner_histories import (
    NESTED,
    NUMBERS,
    SPACE,
    end_of,
    out_of_order,
    parameters_of,
    score,
)
from trackside.aggregates.search.messages import Direction, TrialSuggested
from trackside.dispatcher.advisor.advisor import make_tuner

FOLDER = Path(__file__).parent / "unit" / "dispatcher" / "suggestions"
TRIALS, IN_FLIGHT, SEED = 20, 3, 20_261_122
TOLERANCE = 1e-9
FINITE: dict[str, dict[str, Any]] = {
    "optimizer": {"type": "choice", "values": ["sgd", "adam", None]},
    "layers": {"type": "randint", "low": 1, "high": 5},
    "dropout": {"type": "quniform", "low": 0.0, "high": 0.5, "step": 0.25},
}
SETS = [
    {"optimizer": name, "layers": 1 + n % 4, "dropout": 0.25}
    for n in range(7)
    for name in ("adam", None, "sgd")
]
SMALL = {"population_size": 5}
RUNGS = {"max_resource": 9}
POPULATION = {"interval": 2, "population_size": 4, "quantile": 0.25}

CASES: Mapping[str, tuple[dict[str, dict[str, Any]], dict[str, Any]]] = {
    "random": (SPACE, {"name": "random"}),
    "random-of-every-type": (NUMBERS, {"name": "random"}),
    "random-of-sub-spaces": (NESTED, {"name": "random"}),
    "grid": (FINITE, {"name": "grid"}),
    "batch": (FINITE, {"name": "batch", "options": {"sets": SETS, "repeats": True}}),
    "tpe": (SPACE, {"name": "tpe"}),
    "tpe-of-every-type": (NUMBERS, {"name": "tpe", "options": {"n_startup_trials": 4}}),
    "tpe-of-sub-spaces": (NESTED, {"name": "tpe", "options": {"n_startup_trials": 4}}),
    "tpe-multivariate": (NESTED, {"name": "tpe-multivariate", "options": {"n_startup_trials": 4}}),
    "gp": (SPACE, {"name": "gp", "options": {"n_startup_trials": 10}}),
    "cma-es": (NUMBERS, {"name": "cma-es", "options": {"popsize": 5}}),
    "tpe-of-two-objectives": (SPACE, {"name": "tpe", "options": {"n_startup_trials": 4}}),
    "nsga2": (SPACE, {"name": "nsga2", "options": SMALL}),
    "nsga3": (SPACE, {"name": "nsga3", "options": SMALL}),
    "nsga3-of-two-objectives": (SPACE, {"name": "nsga3", "options": SMALL}),
    "evolution": (SPACE, {"name": "evolution", "options": SMALL}),
    "qmc": (SPACE, {"name": "qmc"}),
    "asha": (SPACE, {"name": "asha", "options": RUNGS | {"reduction_factor": 2}}),
    "asha-with-tpe": (NESTED, {"name": "asha", "options": RUNGS | {"sampler": "tpe"}}),
    "hyperband": (SPACE, {"name": "hyperband", "options": RUNGS | {"reduction_factor": 2}}),
    "bohb": (SPACE, {"name": "bohb", "options": {"max_resource": 3}}),
    "pbt": (SPACE, {"name": "pbt", "options": POPULATION}),
    "pb2": (SPACE, {"name": "pb2", "options": POPULATION}),
    "qmc-halton": (NESTED, {"name": "qmc", "options": {"qmc_type": "halton"}}),
}
"""The searches: space and tuner."""
TWO_OBJECTIVES = frozenset({"tpe-of-two-objectives", "nsga3-of-two-objectives"})


def suggestions(case: str) -> list[dict[str, Any]]:
    """Runs a search with three trials at a time, some of which fail or are stopped early."""
    space, tuner = CASES[case]
    directions: Sequence[Direction] = ("maximize", "minimize") if case in TWO_OBJECTIVES else ()
    asked = make_tuner(space, tuner, SEED, "maximize", directions)
    found: list[dict[str, Any]] = []
    for what, number in out_of_order(TRIALS, IN_FLIGHT):
        if what == "end":
            if case in TWO_OBJECTIVES:
                asked.tell(number, "complete", (score(found[number]), found[number]["dropout"]))
            else:
                asked.tell(*end_of(number, parameters_of(found[number]))[1:])
            continue
        parameters = asked.ask(number)
        assert parameters is not None
        event = TrialSuggested.model_validate_json(
            TrialSuggested(trial=number, parameters=parameters, seen=0).model_dump_json()
        )
        found.append(event.model_dump(mode="json")["parameters"])
    return found


def committed(case: str) -> list[dict[str, Any]]:
    """Reads the suggestions that a file has; writes it first if TRACKSIDE_WRITE_GOLDEN is set."""
    path = FOLDER / f"{case}.json"
    if os.environ.get("TRACKSIDE_WRITE_GOLDEN"):
        lines = ",\n".join(json.dumps(each) for each in suggestions(case))
        path.write_text(f"[\n{lines}\n]\n", "utf-8")
    assert path.is_file(), f"no golden suggestions of {case}: write them and review them"
    read: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))
    return read


def differences(found: Any, expected: Any, path: str = "$", tolerance: float = TOLERANCE) -> Iterator[str]:
    """Yields where two values differ: types, keys, order and texts must be equal, numbers nearly."""
    if type(found) is not type(expected):
        yield f"{path}: {found!r} instead of {expected!r}"
    elif isinstance(expected, dict):
        if list(found) != list(expected):
            yield f"{path}: {list(found)} instead of {list(expected)}"
        for name in expected.keys() & found.keys():
            yield from differences(found[name], expected[name], f"{path}.{name}", tolerance)
    elif isinstance(expected, list):
        if len(found) != len(expected):
            yield f"{path}: {len(found)} items instead of {len(expected)}"
        for at, (one, other) in enumerate(zip(found, expected, strict=False)):
            yield from differences(one, other, f"{path}[{at}]", tolerance)
    elif found != expected and not (
        isinstance(expected, float) and math.isclose(found, expected, rel_tol=tolerance)
    ):
        yield f"{path}: {found!r} instead of {expected!r}"
