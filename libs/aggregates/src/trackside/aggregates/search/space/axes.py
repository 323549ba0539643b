"""A search space as a tree of axes: intervals of numbers or indexes, which are decoded to parameter values.

Pure, and without Optuna: `optuna_samplers` draws from these axes. A choice with sub-spaces is an axis whose
indexes have axes of their own; these exist only where their index is chosen.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from statistics import NormalDist
from typing import Any, Literal

from trackside.aggregates.search.space.options import Fault
from trackside.aggregates.search.space.space import NAME, is_sub_space
from trackside.contracts.envelope.refusals import MAX_PROBLEMS, Problem, nearest

SpaceJson = Mapping[str, Mapping[str, Any]]
Scale = Literal["index", "integer", "linear", "log"]
FaultKind = Literal["unknown", "missing", "outside"]
_Fault = tuple[FaultKind, str, str]

JOIN = "\0"
"""Separates the steps of an axis's path: the contracts permit it in no name."""
TAIL = 1e-12
"""The probability that is cut off at each end of a normal distribution, beyond 7 standard deviations."""
LISTED_CHOICES = 10
"""How many values of a choice a message lists."""
MAX_SHOWN = 80
"""How many characters of a value a message shows."""
MAX_CHOICES = 10_000
"""How many values all choices of a space may have together."""
MAX_LISTED = 20
"""How many parameters of a space a message lists."""
FINITE_TYPES = frozenset({"choice", "constant", "randint", "quniform", "qloguniform"})


class NotInSpaceError(ValueError):
    """A value that is not in a space: `path` is its JSON path, `reason` why."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path, self.reason = path, message


@dataclass(frozen=True, slots=True)
class Axis:
    """One parameter: the interval it is drawn from, and how a drawn number is decoded to a value.

    `count` is the number of its values, None for infinitely many; `at` returns the value of each number below
    it. `branches` are the sub-spaces of a choice by their indexes.
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
        """Whether the axis has a single value, which no tuner needs to draw."""
        return self.low == self.high


Axes = Mapping[str, Axis]


def axes_of(space: SpaceJson) -> Axes:
    """Returns the axes of a space in the order of their names; raises ValueError for an unknown type.

    The order makes a suggestion independent of the order of keys in a stored space.
    """
    return {name: _axis(space[name]) for name in sorted(space)}


def value_key(value: Any) -> str:
    """Returns a key that differs for 1, 1.0, true and "1", which are partly equal in Python and in Optuna."""
    return json.dumps(value, sort_keys=True)


def quantized(value: float, low: float, high: float, step: float) -> float:
    """Rounds to the nearest multiple of step, then clips to [low, high], as NNI's quniform."""
    return min(max(round(value / step) * step, low), high)


def _axis(parameter: Mapping[str, Any]) -> Axis:
    match parameter["type"]:
        case "constant":
            return _constant(parameter["value"])
        case "choice":
            return _choice(parameter["values"])
        case "randint":
            low, high = parameter["low"], parameter["high"] - 1
            encoder, count = _integer_encoder(low, high), high - low + 1
            return Axis("integer", low, high, _identity, encoder, count, lambda index: low + index)
        case "uniform" | "loguniform" as kind:
            return _interval(parameter, "log" if kind == "loguniform" else "linear")
        case "quniform" | "qloguniform" as kind:
            return _stepped(parameter, "log" if kind == "qloguniform" else "linear")
        case "normal" | "qnormal" | "lognormal" | "qlognormal" as kind:
            return _bell(parameter, logarithmic=kind.endswith("lognormal"))
        case other:
            raise ValueError(f"unknown type {other!r} in a search space")


def _identity(value: Any) -> Any:
    return value


def _constant(constant: Any) -> Axis:
    def encode_value(value: Any) -> int:
        if not _alike(value, constant):
            raise ValueError(f"{_shown(value)} is not the constant {_shown(constant)}")
        return 0

    return Axis("index", 0, 0, lambda _: constant, encode_value, 1, lambda _: constant, constant=True)


def _alike(one: Any, other: Any) -> bool:
    """Returns whether two JSON values are equal, 1 and 1.0 too, but not 1 and true as in Python."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one)
    return bool(one == other)


def _shown(value: Any) -> str:
    """Returns a value as JSON, cut short if it is long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def _choice(values: list[Any]) -> Axis:
    distinct = list({value_key(value): value for value in values}.values())
    branches = {
        index: axes_of({name: inner for name, inner in value.items() if name != NAME})
        for index, value in enumerate(distinct)
        if is_sub_space(value)
    }
    names = [value[NAME] if index in branches else value for index, value in enumerate(distinct)]
    indexes = {(index in branches, value_key(name)): index for index, name in enumerate(names)}

    def encode_value(value: Any) -> int:
        index = indexes.get((False, value_key(value)))
        if index is None and isinstance(value, Mapping):
            index = indexes.get((True, value_key(value.get(NAME))))
        if index is None:
            # A log that another language wrote or copied may have 1 for 1.0.
            plain = (i for i, other in enumerate(names) if i not in branches and _alike(other, value))
            index = next(plain, None)
        if index is None:
            chosen = value[NAME] if branches and isinstance(value, Mapping) and NAME in value else value
            raise ValueError(f"{_shown(chosen)} is none of the choices: {_listed(names)}")
        return index

    sizes = [size(branches[index]) if index in branches else 1 for index in range(len(distinct))]
    count = None if None in sizes else sum(points or 0 for points in sizes)

    def at(number: int) -> Any:
        for index, points in enumerate(sizes):
            if number < (points or 0):
                return (
                    {NAME: names[index], **point_at(branches[index], number)}
                    if index in branches
                    else names[index]
                )
            number -= points or 0
        raise IndexError(number)

    return Axis("index", 0, len(distinct) - 1, names.__getitem__, encode_value, count, at, branches or None)


def _listed(names: list[Any]) -> str:
    shown = ", ".join(_shown(name) for name in names[:LISTED_CHOICES])
    return shown if len(names) <= LISTED_CHOICES else f"{shown} and {len(names) - LISTED_CHOICES} more"


def _integer_encoder(low: int, high: int) -> Callable[[Any], int]:
    check = _number_encoder(low, high)

    def encode_value(value: Any) -> int:
        if check(value) != int(value):
            raise ValueError(f"{value!r} is not an integer")
        return int(value)

    return encode_value


def _number_encoder(low: float, high: float) -> Callable[[Any], Any]:
    def encode_value(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise ValueError(f"{value!r} is not a number from {low} to {high}")
        return value

    return encode_value


def _interval(parameter: Mapping[str, Any], scale: Scale) -> Axis:
    low, high = float(parameter["low"]), float(parameter["high"])
    count = 1 if low == high else None
    return Axis(scale, low, high, _identity, _number_encoder(low, high), count, lambda _: low)


def _stepped(parameter: Mapping[str, Any], scale: Scale) -> Axis:
    low, high, step = float(parameter["low"]), float(parameter["high"]), float(parameter["step"])
    first, last = round(low / step), round(high / step)
    return Axis(
        scale,
        low,
        high,
        lambda value: quantized(value, low, high, step),
        _number_encoder(low, high),
        last - first + 1,
        lambda index: min(max((first + index) * step, low), high),
    )


def _bell(parameter: Mapping[str, Any], *, logarithmic: bool) -> Axis:
    """Returns the axis of a normal distribution: its quantile, uniform from 0 to 1."""
    curve, step = NormalDist(parameter["mu"], parameter["sigma"]), parameter.get("step")

    def decode_value(quantile: float) -> float:
        value = curve.inv_cdf(quantile)
        value = math.exp(value) if logarithmic else value
        return value if step is None else round(value / step) * float(step)

    def encode_value(value: Any) -> float:
        value = _number_encoder(-math.inf, math.inf)(value)
        if not math.isfinite(value) or (logarithmic and (value < 0 or (value == 0 and step is None))):
            raise ValueError(f"{value!r} is not a finite number{' above 0' if logarithmic else ''}")
        if logarithmic:
            value = math.log(value) if value > 0 else -math.inf
        return min(max(curve.cdf(value), TAIL), 1 - TAIL)

    return Axis("linear", TAIL, 1 - TAIL, decode_value, encode_value)


def size(axes: Axes) -> int | None:
    """Returns the number of points of a space; None for infinitely many."""
    counts = [axis.count for axis in axes.values()]
    return None if None in counts else math.prod(count or 0 for count in counts)


def point_at(axes: Axes, index: int) -> dict[str, Any]:
    """Returns point number `index` of a finite space; the last parameter changes fastest."""
    values: dict[str, Any] = {}
    for name, axis in reversed(list(axes.items())):
        assert axis.count is not None
        assert axis.at is not None
        index, number = divmod(index, axis.count)
        values[name] = axis.at(number)
    return {name: values[name] for name in axes}


def encode(axes: Axes, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the number or index on each axis that encodes a set of parameters, by the axis's path.

    Constants have none. Raises NotInSpaceError for a missing, an additional or an impossible value.
    """
    faults: list[_Fault] = []
    encoded = _encode(axes, parameters, "", "$", faults)
    if faults:
        raise NotInSpaceError(*faults[0][1:])
    return encoded


def _encode(
    axes: Axes, parameters: Mapping[str, Any], prefix: str, path: str, faults: list[_Fault]
) -> dict[str, Any]:
    """Encodes what is in the space, and adds the rest to the faults."""
    unknown = sorted(parameters.keys() - axes.keys() - ({NAME} if prefix else set()))
    known = ", ".join(islice(axes, MAX_LISTED)) or "nothing"
    if len(axes) > MAX_LISTED:
        known += f" and {len(axes) - MAX_LISTED} more"
    faults += (
        ("unknown", f"{path}.{name}", f"not part of the space, which has {known}{nearest(name, axes)}")
        for name in unknown[:MAX_PROBLEMS]
    )
    encoded: dict[str, Any] = {}
    for name, axis in axes.items():
        here = f"{path}.{name}"
        if name not in parameters:
            faults.append(("missing", here, "missing"))
            continue
        value = parameters[name]
        try:
            code = axis.encode(value)
        except (ValueError, TypeError, OverflowError) as error:
            faults.append(("outside", here, str(error)))
            continue
        if not axis.constant:
            encoded[prefix + name] = code
        branch = (axis.branches or {}).get(code)
        if branch is not None:
            encoded |= _encode(branch, value, prefix + branch_prefix(name, code), here, faults)
    return encoded


def branch_prefix(name: str, index: int) -> str:
    """Returns the prefix of the paths of a branch's axes, below that of its choice."""
    return f"{name}{JOIN}{index}{JOIN}"


def flat_axes(axes: Axes, prefix: str = "") -> Iterator[tuple[str, Axis]]:
    """Yields all axes that are drawn, with those of every branch, by their paths."""
    for name, axis in axes.items():
        if not axis.constant:
            yield prefix + name, axis
        for index, branch in (axis.branches or {}).items():
            yield from flat_axes(branch, prefix + branch_prefix(name, index))


def parameters_of(space: SpaceJson, path: str = "$.space") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields all parameters of a space as it is written, with those of sub-spaces, by their JSON paths."""
    for name, parameter in space.items():
        here = f"{path}.{name}"
        yield here, parameter
        values = parameter.get("values") if parameter.get("type") == "choice" else None
        for index, value in enumerate(values or ()):
            if is_sub_space(value):
                members = {key: member for key, member in value.items() if key != NAME}
                yield from parameters_of(members, f"{here}.values[{index}]")


def choices_problem(space: SpaceJson) -> Problem | None:
    """Returns why the choices of a space have too many values together; None if they don't."""
    count = sum(
        len(parameter["values"]) for _, parameter in parameters_of(space) if parameter["type"] == "choice"
    )
    if count <= MAX_CHOICES:
        return None
    message = f"the choices have {count:,} values together, at most {MAX_CHOICES:,} are allowed"
    return Problem(code="too_costly", path="$.space", message=message)


def parameters_faults(axes: Axes, parameters: object, path: str = "$") -> list[Fault]:
    """Returns why a set of parameters is not in the space: paths and messages, none if it is."""
    if not isinstance(parameters, Mapping):
        given = type(parameters).__name__
        return [(path, f"expected an object with a value for each parameter, got {given}")]
    faults: list[_Fault] = []
    _encode(axes, parameters, "", path, faults)
    return [(place, message) for _, place, message in faults]


def faults_by_kind(
    axes: Axes, parameters: Mapping[str, Any], path: str = "$"
) -> dict[FaultKind, list[Fault]]:
    """Returns why a set of parameters is not in the space, by kind: names that the space doesn't have,
    parameters that are missing, values that are outside of it.
    """
    faults: list[_Fault] = []
    _encode(axes, parameters, "", path, faults)
    kinds: tuple[FaultKind, ...] = ("unknown", "missing", "outside")
    return {kind: [(place, message) for found, place, message in faults if found == kind] for kind in kinds}
