"""The options of tuners that continue trials from checkpoints of others, and their faults. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trackside.aggregates.search.space.options import (
    Boolean,
    Fault,
    Fraction,
    Integer,
    Number,
    OneOf,
    OptionTypes,
    ParameterName,
)

BUDGET_PARAMETER = "budget_parameter"
STARTS = "starts"
"""The option of `batch` that says of each of its parameter sets which trial it continues, and its limit."""
STEPS_MAX = 1_000_000_000
DEFAULT_FACTORS: Mapping[str, int] = {"asha": 4, "hyperband": 3, "bohb": 3}
"""The reduction factor of each, if the options give none."""
_MODE = OneOf(("promote", "stop"))
_RUNGS: OptionTypes = {
    "min_resource": Integer(1, STEPS_MAX),
    "max_resource": Integer(2, STEPS_MAX),
    "reduction_factor": Integer(2, 1_000),
    BUDGET_PARAMETER: ParameterName(),
}
_SAMPLER = OneOf(("random", "tpe"))
_POPULATION: OptionTypes = {
    "interval": Integer(1, STEPS_MAX),
    "population_size": Integer(2, 10_000),
    "quantile": Number(0.01, 0.5),
    "resample_probability": Fraction(),
    "synchronous": Boolean(),
    BUDGET_PARAMETER: ParameterName(),
}
PROMOTING: Mapping[str, OptionTypes] = {
    "asha": {**_RUNGS, "mode": _MODE, "min_early_stopping_rate": Integer(0, 100), "sampler": _SAMPLER},
    "hyperband": {**_RUNGS, "mode": _MODE, "sampler": _SAMPLER},
    "bohb": {**_RUNGS, "random_fraction": Fraction()},
    "pbt": {**_POPULATION, "perturbation": Number(0.001, 0.999)},
    "pb2": _POPULATION,
}
"""The options of each."""
_REQUIRED = dict.fromkeys(DEFAULT_FACTORS, "max_resource") | {"pbt": "interval", "pb2": "interval"}


def is_promoting(name: str, options: Mapping[str, Any]) -> bool:
    """Returns whether trials of a tuner continue checkpoints of others; `batch` does if it has starts."""
    return name in PROMOTING or (name == "batch" and STARTS in options)


def rung_budgets(least: int, most: int, factor: int, rate: int = 0) -> list[int]:
    """Returns the step limits of the rungs: `least` times powers of `factor`, up to `most`."""
    budgets = []
    budget = least * factor**rate
    while budget <= most:
        budgets.append(budget)
        budget *= factor
    return budgets


def promotion_faults(space: Mapping[str, Any], name: str, options: Mapping[str, Any]) -> Iterator[Fault]:
    """Yields what is missing from the options of a tuner, and what contradicts; a wrong one is None."""
    if not is_promoting(name, options):
        return
    path = "$.tuner.options"
    needed = _REQUIRED.get(name, STARTS)
    if needed not in options:
        yield f"{path}.{needed}", f"missing option {needed!r} of tuner {name}"
    budget_parameter = options.get(BUDGET_PARAMETER)
    if budget_parameter in space:
        message = f"the space has a parameter {budget_parameter!r}; the tuner sets this one, so leave it out"
        yield f"{path}.{BUDGET_PARAMETER}", message
    if needed == "max_resource":
        yield from _rung_faults(path, name, options)
    if name == "batch" and options[STARTS] is not None:
        yield from _start_faults(f"{path}.{STARTS}", options)


def _start_faults(path: str, options: Mapping[str, Any]) -> Iterator[Fault]:
    starts: Sequence[Mapping[str, Any]] = options[STARTS]
    sets = options.get("sets") or ()
    if len(starts) != len(sets) or not options.get("repeats"):
        yield (
            path,
            f"expected `repeats: true`, and a start for each of the {len(sets)} sets, got {len(starts)}",
        )
    for number, start in enumerate(starts):
        place, before, limit = f"{path}[{number}]", start.get("from_trial"), start.get("step_limit")
        if start.keys() - {"from_trial", "step_limit"} or not _is_step(limit):
            yield place, f"expected from_trial, step_limit or both, a step limit from 1 to {STEPS_MAX:,}"
        elif before is not None and not (
            type(before) is int
            and 0 <= before < number
            and type(limit) is int
            and type(starts[before].get("step_limit")) is int
            and starts[before]["step_limit"] < limit
        ):
            yield place, f"expected from_trial to be an earlier trial with a lower step limit, got {before!r}"


def _is_step(limit: object) -> bool:
    return limit is None or (type(limit) is int and 0 < limit <= STEPS_MAX)


def _rung_faults(path: str, name: str, options: Mapping[str, Any]) -> Iterator[Fault]:
    if options.get("mode") == "stop":
        yield f"{path}.mode", f"tuner {name} promotes; to stop trials, write assessor: {{name: {name}}}"
    least, most = options.get("min_resource", 1), options.get("max_resource")
    factor = options.get("reduction_factor", DEFAULT_FACTORS[name])
    rate = options.get("min_early_stopping_rate", 0)
    if least is None or most is None or factor is None or rate is None:
        return
    if len(rung_budgets(least, most, factor, rate)) < 2:
        first = least * factor**rate
        yield (
            f"{path}.max_resource",
            f"no trial could be promoted: the first rung is at step {first}, the next at {first * factor}, "
            f"beyond max_resource {most}",
        )
