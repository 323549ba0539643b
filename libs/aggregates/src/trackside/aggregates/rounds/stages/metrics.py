"""Metrics that conditions name: a number, an item of a list, or what a reducer makes of one. Pure.

mean(m)  max(m)  min(m)      of a list
m[0]  m[-1]                  an item of it: the first, the last
m                            a number; a list needs one of the above
m_delta                      what the trained model has more of `m` than the deployed one, item by item
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from trackside.aggregates.rounds.messages import SeenMetric
from trackside.contracts.envelope.refusals import nearest

REDUCERS = ("mean", "max", "min")
DELTA = "_delta"
_METRIC = re.compile(
    r"(?:(?P<reducer>[a-zA-Z]+)\((?P<reduced>[^()\[\]]+)\)"
    r"|(?P<name>[^()\[\]]+)(?:\[ *(?P<item>-?[0-9]{1,6}) *\])?)"
)


@dataclass(frozen=True, slots=True)
class MissingMetric:
    """Stands where a number would be, for the reason why there is none."""

    reason: str


@lru_cache(maxsize=1_000)
def _parsed(text: str) -> re.Match[str] | None:
    return _METRIC.fullmatch(text.strip())


def metric_problem(text: str) -> str:
    """Returns why a text names no metric; empty if it does."""
    found = _parsed(text)
    if found is None or not name_of(text):
        return (
            f"{text!r} is not a metric; expected NAME, NAME[0], NAME[-1], mean(NAME), max(NAME) or min(NAME)"
        )
    if found["reducer"] is not None and found["reducer"] not in REDUCERS:
        return f"there is no reducer {found['reducer']!r}; expected one of: {', '.join(REDUCERS)}"
    return ""


def name_of(text: str) -> str:
    """Returns the name of the metric in a text that metric_problem finds nothing wrong with."""
    found = _parsed(text)
    return "" if found is None else (found["reduced"] or found["name"]).strip()


def is_plain(text: str) -> bool:
    """Returns whether a text is the name of a metric alone, without a reducer or an item."""
    return name_of(text) == text.strip()


def read(text: str, metrics: Mapping[str, Any]) -> SeenMetric:
    """Returns the number that a text names, or why there is none: never another number in its place."""
    if problem := metric_problem(text):
        return SeenMetric(reason=problem)
    found = _parsed(text)
    assert found is not None
    name = name_of(text)
    if name not in metrics:
        return SeenMetric(reason=f"there is no metric {name!r}{nearest(name, metrics)}")
    value = metrics[name]
    if isinstance(value, MissingMetric):
        return SeenMetric(reason=value.reason)
    if found["reducer"] is None and found["item"] is None:
        if isinstance(value, list):
            hint = f"write mean({name}), max({name}), min({name}), {name}[0] or {name}[-1]"
            return SeenMetric(reason=f"{name} is a list of {_items(value)}, not a number; {hint}")
        return _number(name, value)
    if not isinstance(value, list):
        return SeenMetric(reason=f"{name} is not a list; write {name}")
    if found["item"] is not None:
        return _item(name, value, int(found["item"]))
    return _reduced(name, value, found["reducer"])


def _item(name: str, values: Sequence[Any], at: int) -> SeenMetric:
    if not -len(values) <= at < len(values):
        return SeenMetric(reason=f"there is no {name}[{at}]: the list has {_items(values)}")
    return _number(f"{name}[{at}]", values[at])


def _reduced(name: str, values: Sequence[Any], reducer: str) -> SeenMetric:
    """Returns what a reducer makes of a list; of one that has anything else than numbers it makes nothing."""
    numbers = []
    for at, value in enumerate(values):
        seen = _number(f"{name}[{at}]", value)
        if not isinstance(seen.value, float):
            return seen
        numbers.append(seen.value)
    if not numbers:
        return SeenMetric(reason=f"{name} is an empty list: it has no {reducer}")
    if reducer == "mean":
        return SeenMetric(value=_mean(numbers))
    return SeenMetric(value=max(numbers) if reducer == "max" else min(numbers))


def _mean(numbers: Sequence[float]) -> float:
    try:
        return math.fsum(numbers) / len(numbers)
    except OverflowError:  # the sum is too large, which the mean never is
        return math.fsum(number / len(numbers) for number in numbers)


def _number(name: str, value: Any) -> SeenMetric:
    if isinstance(value, MissingMetric):
        return SeenMetric(reason=value.reason)
    if isinstance(value, str) and value in ("nan", "inf", "-inf"):
        return SeenMetric(reason=f"{name} is {value}")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return SeenMetric(reason=f"{name} is {_kind(value)}, not a number")
    try:
        number = float(value)
    except OverflowError:
        return SeenMetric(reason=f"{name} is too large for a number of 64 bits")
    if not math.isfinite(number):
        return SeenMetric(reason=f"{name} is {number}")
    return SeenMetric(value=number)


def with_deltas(trained: Mapping[str, Any], deployed: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the metrics of the trained model, and the differences of all that either model has.

    Where there is no difference a MissingMetric says why. A difference has its name before a metric that the
    trained model has under it.
    """
    return {**trained, **_differences(trained, deployed)}


def deltas(trained: Mapping[str, Any], deployed: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the trained model has more of each metric than the deployed one, by `METRIC_delta`.

    A difference of lists is a list, as long as both, with None where one of them has no number.
    """
    found = _differences(trained, deployed)
    return {name: _without_reasons(value) for name, value in found.items() if _is_there(value)}


def missing_deltas(trained: Mapping[str, Any], deployed: Mapping[str, Any]) -> dict[str, str]:
    """Returns why there is no difference of metrics that only one of the models has, or as no number."""
    found = _differences(trained, deployed)
    return {name: value.reason for name, value in found.items() if isinstance(value, MissingMetric)}


def _is_there(value: Any) -> bool:
    return not isinstance(value, MissingMetric)


def _without_reasons(value: Any) -> Any:
    return [each if _is_there(each) else None for each in value] if isinstance(value, list) else value


def _differences(trained: Mapping[str, Any], deployed: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in sorted(trained.keys() | deployed.keys()):
        models = [kind for kind, has in (("trained", trained), ("deployed", deployed)) if name in has]
        if len(models) == 1:
            found[f"{name}{DELTA}"] = MissingMetric(f"only the {models[0]} model has {name}")
        else:
            found[f"{name}{DELTA}"] = _compared(name, trained[name], deployed[name])
    return found


def _compared(name: str, new: Any, old: Any) -> Any:
    if not isinstance(new, list) and not isinstance(old, list):
        return _difference(name, new, old)
    if not isinstance(new, list) or not isinstance(old, list):
        kind = "trained" if isinstance(new, list) else "deployed"
        return MissingMetric(f"{name} is a list of the {kind} model only")
    if len(new) != len(old):
        message = f"{name} has {_items(new)} of the trained model, and {_items(old)} of the deployed one"
        return MissingMetric(message)
    pairs = enumerate(zip(new, old, strict=True))
    return [_difference(f"{name}[{at}]", one, other) for at, (one, other) in pairs]


def _difference(name: str, new: Any, old: Any) -> float | MissingMetric:
    numbers = []
    for kind, value in (("trained", new), ("deployed", old)):
        seen = _number(name, value)
        if not isinstance(seen.value, float):
            return MissingMetric(f"{seen.reason}, of the {kind} model")
        numbers.append(seen.value)
    difference = numbers[0] - numbers[1]
    if not math.isfinite(difference):
        return MissingMetric(f"the difference of {name} is too large for a number of 64 bits")
    return difference


def _items(values: Sequence[Any]) -> str:
    return "1 item" if len(values) == 1 else f"{len(values)} items"


def _kind(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    kinds: dict[type, str] = {str: "a text", list: "a list", dict: "an object"}
    return kinds.get(type(value), type(value).__name__)
