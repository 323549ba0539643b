"""Metrics that conditions name: a number, an item of a list, or what a reducer makes of one. Pure.

mean(m)  max(m)  min(m)      of a list
m[0]  m[-1]                  an item of it: the first, the last
m                            a number; a list needs one of the above
m_delta                      what the trained model has more of `m` than the deployed one, item by item
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from trackside.aggregates.rounds.messages import SeenMetric

REDUCERS = ("mean", "max", "min")
DELTA = "_delta"
MAX_ITEMS = 10_000
_METRIC = re.compile(
    r"(?:(?P<reducer>[a-z]+)\((?P<reduced>[^()\[\]]+)\)|(?P<name>[^()\[\]]+)(?:\[(?P<item>-?[0-9]{1,6})\])?)"
)


def metric_problem(text: str) -> str:
    """Returns why a text names no metric; empty if it does."""
    found = _METRIC.fullmatch(text.strip())
    if found is None:
        return (
            f"{text!r} is no metric; expected a name, NAME[0], NAME[-1], or one of mean, max, min of (NAME)"
        )
    if found["reducer"] is not None and found["reducer"] not in REDUCERS:
        return f"there is no reducer {found['reducer']!r}; expected one of: {', '.join(REDUCERS)}"
    return ""


def name_of(text: str) -> str:
    """Returns the name of the metric in a text that metric_problem finds nothing wrong with."""
    found = _METRIC.fullmatch(text.strip())
    return "" if found is None else found["reduced"] or found["name"]


def read(text: str, metrics: Mapping[str, Any]) -> SeenMetric:
    """Returns the number that a text names, or why there is none: never another number in its place."""
    if problem := metric_problem(text):
        return SeenMetric(reason=problem)
    found = _METRIC.fullmatch(text.strip())
    assert found is not None
    name = name_of(text)
    if name not in metrics:
        return SeenMetric(reason=f"there is no metric {name!r}")
    value = metrics[name]
    if found["reducer"] is None and found["item"] is None:
        if isinstance(value, list):
            hint = f"write mean({name}), max({name}), {name}[0] or {name}[-1]"
            return SeenMetric(reason=f"{name} is a list of {len(value)}; {hint}")
        return _number(name, value)
    if not isinstance(value, list):
        return SeenMetric(reason=f"{name} is not a list; write {name}")
    return _of_list(text, value, found["reducer"], found["item"])


def _of_list(text: str, values: Sequence[Any], reducer: str | None, item: str | None) -> SeenMetric:
    if item is not None:
        at = int(item)
        if not -len(values) <= at < len(values):
            return SeenMetric(reason=f"{text}: there are {len(values)}")
        return _number(text, values[at])
    numbers = [_number(text, value) for value in values]
    bad = next((each for each in numbers if each.value is None or not isinstance(each.value, float)), None)
    if not numbers or bad is not None:
        return SeenMetric(reason=f"{text}: the list is empty" if bad is None else bad.reason)
    known = [each.value for each in numbers if isinstance(each.value, float)]
    match reducer:
        case "mean":
            return SeenMetric(value=math.fsum(known) / len(known))
        case "max":
            return SeenMetric(value=max(known))
        case _:
            return SeenMetric(value=min(known))


def _number(name: str, value: Any) -> SeenMetric:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return SeenMetric(reason=f"{name} is not a number")
    if not math.isfinite(value):
        return SeenMetric(reason=f"{name} is {value}")
    return SeenMetric(value=float(value))


def with_deltas(trained: Mapping[str, Any], deployed: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the metrics of the trained model, and the difference to the deployed one of each that is there.

    A difference of lists is a list, as long as both; of lists of other lengths, and of what only one of the
    models has, there is none.
    """
    return {**trained, **deltas(trained, deployed)}


def deltas(trained: Mapping[str, Any], deployed: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the trained model has more of each metric than the deployed one."""
    found: dict[str, Any] = {}
    for name in sorted(trained.keys() & deployed.keys()):
        new, old = trained[name], deployed[name]
        if isinstance(new, list) and isinstance(old, list):
            if len(new) == len(old):
                found[f"{name}{DELTA}"] = [_difference(a, b) for a, b in zip(new, old, strict=True)]
        elif not isinstance(new, list) and not isinstance(old, list):
            found[f"{name}{DELTA}"] = _difference(new, old)
    return found


def _difference(new: Any, old: Any) -> float | None:
    one, other = _number("", new).value, _number("", old).value
    return one - other if isinstance(one, float) and isinstance(other, float) else None
