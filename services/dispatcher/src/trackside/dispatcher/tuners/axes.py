"""A search space as tuners walk it: axes of places or numbers, with the way out to values and back in.

Pure, and without Optuna: the tree says what can be drawn, `samplers` draws it. A choice with sub-spaces is an
axis whose places have axes of their own; these exist only where their place is chosen.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

from trackside.dispatcher.tuners.options import Fault

SpaceJson = Mapping[str, Mapping[str, Any]]
Scale = Literal["index", "integer", "linear", "log"]

NAME = "_name"
JOIN = "\0"
"""Between the steps of an axis's path: the contracts let no name hold it."""
TAIL = 1e-12
"""The part of a normal distribution that is cut off at each end, beyond 7 standard deviations."""
FINITE_TYPES = frozenset({"choice", "constant", "randint", "quniform", "qloguniform"})


class NotInSpaceError(ValueError):
    """A value that a space doesn't have: `path` is where, the message why."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path, self.reason = path, message


@dataclass(frozen=True, slots=True)
class Axis:
    """One parameter: the interval or the places it is drawn from, and what they mean.

    `count` is how many values it can have, None for no end of them; `at` gives the value of each.
    `branches` are the sub-spaces of a choice by their places.
    """

    scale: Scale
    low: float
    high: float
    decode: Callable[[Any], Any]
    encode: Callable[[Any], Any]
    count: int | None = None
    at: Callable[[int], Any] | None = None
    branches: Mapping[int, "Axes"] | None = None
    constant: bool = False

    @property
    def is_single(self) -> bool:
        """Says whether there is one value only, which no tuner needs to think about."""
        return self.low == self.high


Axes = Mapping[str, Axis]


def axes_of(space: SpaceJson) -> Axes:
    """Gives the axes of a space in the order of their names; raises ValueError for an unknown type.

    In that order, a store that reorders keys changes nothing.
    """
    return {name: _axis(space[name]) for name in sorted(space)}


def value_key(value: Any) -> str:
    """Tells 1, 1.0, true and "1" apart, which Python's equality (and Optuna's) doesn't."""
    return json.dumps(value, sort_keys=True)


def quantized(value: float, low: float, high: float, step: float) -> float:
    """Rounds to the nearest multiple of step, then clips to [low, high], as NNI's quniform does."""
    return min(max(round(value / step) * step, low), high)


def _axis(parameter: Mapping[str, Any]) -> Axis:
    match parameter["type"]:
        case "constant":
            return _constant(parameter["value"])
        case "choice":
            return _choice(parameter["values"])
        case "randint":
            low, high = parameter["low"], parameter["high"] - 1
            return Axis(
                "integer", low, high, _same, _whole(low, high), high - low + 1, lambda place: low + place
            )
        case "uniform" | "loguniform" as kind:
            return _interval(parameter, "log" if kind == "loguniform" else "linear")
        case "quniform" | "qloguniform" as kind:
            return _stepped(parameter, "log" if kind == "qloguniform" else "linear")
        case "normal" | "qnormal" | "lognormal" | "qlognormal" as kind:
            return _bell(parameter, logarithmic=kind.endswith("lognormal"))
        case other:
            raise ValueError(f"unknown type {other!r} in a search space")


def _same(value: Any) -> Any:
    return value


def _constant(constant: Any) -> Axis:
    def inward(value: Any) -> int:
        if value_key(value) != value_key(constant) and value != constant:
            raise ValueError(f"{value!r} is not the constant {constant!r}")
        return 0

    return Axis("index", 0, 0, lambda _: constant, inward, 1, lambda _: constant, constant=True)


def _choice(values: list[Any]) -> Axis:
    distinct = list({value_key(value): value for value in values}.values())
    branches = {
        place: axes_of({name: inner for name, inner in value.items() if name != NAME})
        for place, value in enumerate(distinct)
        if isinstance(value, Mapping)
    }
    names = [value[NAME] if place in branches else value for place, value in enumerate(distinct)]
    places = {(place in branches, value_key(name)): place for place, name in enumerate(names)}

    def inward(value: Any) -> int:
        nested = isinstance(value, Mapping)
        name = value.get(NAME) if nested else value
        found = places.get((nested, value_key(name)))
        if found is not None:
            return found
        # 1.0 may come back as 1 from a log that another language wrote or copied.
        alike = [p for p, other in enumerate(names) if other == name and (p in branches) is nested]
        if not alike:
            raise ValueError(f"{name!r} is none of the choices")
        return alike[0]

    sizes = [size(branches[place]) if place in branches else 1 for place in range(len(distinct))]
    count = None if None in sizes else sum(found or 0 for found in sizes)

    def at(index: int) -> Any:
        for place, found in enumerate(sizes):
            if index < (found or 0):
                return (
                    {NAME: names[place], **point_at(branches[place], index)}
                    if place in branches
                    else names[place]
                )
            index -= found or 0
        raise IndexError(index)

    return Axis("index", 0, len(distinct) - 1, names.__getitem__, inward, count, at, branches or None)


def _whole(low: int, high: int) -> Callable[[Any], int]:
    within = _within(low, high)

    def inward(value: Any) -> int:
        if within(value) != int(value):
            raise ValueError(f"{value!r} is not a whole number")
        return int(value)

    return inward


def _within(low: float, high: float) -> Callable[[Any], Any]:
    def inward(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise ValueError(f"{value!r} is not a number from {low} to {high}")
        return value

    return inward


def _interval(parameter: Mapping[str, Any], scale: Scale) -> Axis:
    low, high = float(parameter["low"]), float(parameter["high"])
    count = 1 if low == high else None
    return Axis(scale, low, high, _same, _within(low, high), count, lambda _: low)


def _stepped(parameter: Mapping[str, Any], scale: Scale) -> Axis:
    low, high, step = float(parameter["low"]), float(parameter["high"]), float(parameter["step"])
    first, last = round(low / step), round(high / step)
    return Axis(
        scale,
        low,
        high,
        lambda value: quantized(value, low, high, step),
        _within(low, high),
        last - first + 1,
        lambda place: min(max((first + place) * step, low), high),
    )


def _bell(parameter: Mapping[str, Any], *, logarithmic: bool) -> Axis:
    """Draws a normal number by its quantile, on which every tuner can search: uniform from 0 to 1."""
    curve, step = NormalDist(parameter["mu"], parameter["sigma"]), parameter.get("step")

    def outward(quantile: float) -> float:
        value = curve.inv_cdf(quantile)
        value = math.exp(value) if logarithmic else value
        return value if step is None else round(value / step) * float(step)

    def inward(value: Any) -> float:
        value = _within(-math.inf, math.inf)(value)
        if not math.isfinite(value) or (logarithmic and (value < 0 or (value == 0 and step is None))):
            raise ValueError(f"{value!r} is no finite number{' above 0' if logarithmic else ''}")
        if logarithmic:
            value = math.log(value) if value > 0 else -math.inf
        return min(max(curve.cdf(value), TAIL), 1 - TAIL)

    return Axis("linear", TAIL, 1 - TAIL, outward, inward)


def size(axes: Axes) -> int | None:
    """Counts the points of a space; None for no end of them."""
    counts = [axis.count for axis in axes.values()]
    return None if None in counts else math.prod(count or 0 for count in counts)


def point_at(axes: Axes, index: int) -> dict[str, Any]:
    """Gives the point number `index` of a finite space; the last parameter changes fastest."""
    found: dict[str, Any] = {}
    for name, axis in reversed(list(axes.items())):
        assert axis.count is not None
        assert axis.at is not None
        index, place = divmod(index, axis.count)
        found[name] = axis.at(place)
    return {name: found[name] for name in axes}


def encode(axes: Axes, parameters: Mapping[str, Any], prefix: str = "", path: str = "$") -> dict[str, Any]:
    """Gives the place or number of each axis that a set of parameters has, by the axis's path.

    Constants have none. Raises NotInSpaceError for a missing, a superfluous or an impossible value.
    """
    extra = sorted(parameters.keys() - axes.keys() - ({NAME} if prefix else set()))
    if extra:
        raise NotInSpaceError(
            f"{path}.{extra[0]}", f"not part of the space, which has {', '.join(axes) or 'nothing'}"
        )
    found: dict[str, Any] = {}
    for name, axis in axes.items():
        here = f"{path}.{name}"
        if name not in parameters:
            raise NotInSpaceError(here, "missing")
        value = parameters[name]
        try:
            place = axis.encode(value)
        except (ValueError, TypeError, OverflowError) as error:
            raise NotInSpaceError(here, str(error)) from None
        if not axis.constant:
            found[prefix + name] = place
        branch = (axis.branches or {}).get(place)
        if branch is not None:
            found |= encode(branch, value, prefix + branch_prefix(name, place), here)
    return found


def branch_prefix(name: str, place: int) -> str:
    """Gives what the paths of a branch's axes begin with, after those of the choice it belongs to."""
    return f"{name}{JOIN}{place}{JOIN}"


def flat_axes(axes: Axes, prefix: str = "") -> Iterator[tuple[str, Axis]]:
    """Walks all axes that are drawn, with those of every branch, by their paths."""
    for name, axis in axes.items():
        if not axis.constant:
            yield prefix + name, axis
        for place, branch in (axis.branches or {}).items():
            yield from flat_axes(branch, prefix + branch_prefix(name, place))


def parameters_of(space: SpaceJson, path: str = "$.space") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Walks all parameters of a space as it was written, with those of sub-spaces, by their JSON paths."""
    for name, parameter in space.items():
        here = f"{path}.{name}"
        yield here, parameter
        values = parameter.get("values") if parameter.get("type") == "choice" else None
        for place, value in enumerate(values or ()):
            if isinstance(value, Mapping):
                members = {key: member for key, member in value.items() if key != NAME}
                yield from parameters_of(members, f"{here}.values[{place}]")


def parameters_fault(axes: Axes, parameters: object, path: str = "$") -> Fault | None:
    """Says why a set of parameters is none of the space: path and message, or None if it is."""
    if not isinstance(parameters, Mapping):
        return path, f"expected an object with a value for each parameter, got {type(parameters).__name__}"
    try:
        encode(axes, parameters, path=path)
    except NotInSpaceError as error:
        return error.path, error.reason
    return None
