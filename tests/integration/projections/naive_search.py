"""A search over jobs in plain Python, which the SQL is compared with, and random conditions.

A condition is true, false, or None: unknown, as a job doesn't have what is compared.
"""

import json
import math
import operator
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from tests.integration.projections.given_jobs import BASE, GivenJob
from trackside.projections.job_search.expressions import (
    AllOf,
    AnyOf,
    Compared,
    Contains,
    FieldName,
    GivenValue,
    InList,
    JobCondition,
    MetricName,
    Missing,
    Name,
    Negated,
    ParameterPath,
)
from trackside.projections.job_search.fields import FIELDS, shown_name
from trackside.projections.job_search.parsing import STATISTICS

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
TIMES = ("started_at", "ended_at", "updated_at")
FOUND_MS = 7
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def matches(condition: JobCondition, job: GivenJob) -> bool | None:
    """Returns whether a job matches a condition; None if that is unknown."""
    match condition:
        case AllOf():
            found = [matches(inner, job) for inner in condition.conditions]
            return False if False in found else None if None in found else True
        case AnyOf():
            found = [matches(inner, job) for inner in condition.conditions]
            return True if True in found else None if None in found else False
        case Negated():
            inner = matches(condition.condition, job)
            return None if inner is None else not inner
        case Missing():
            return value_of(condition.name, job) is None
        case Contains():
            if condition.name == FieldName("tags"):
                return condition.value.value in job.metrics or (
                    condition.value.value == "_hparams_" and bool(job.reported)
                )
            text = value_of(condition.name, job)
            return str(condition.value.value) in text if isinstance(text, str) else None
        case Compared():
            return _compare(condition.name, condition.operator, condition.value, job)
        case InList():
            found = [_compare(condition.name, "==", value, job) for value in condition.values]
            return True if True in found else False if False in found else None


def _compare(name: Name, compared: str, value: GivenValue, job: GivenJob) -> bool | None:
    found, given = value_of(name, job), value.value
    if isinstance(name, FieldName) and name.name in TIMES:
        given = Decimal((datetime.fromisoformat(str(given)) - EPOCH) // timedelta(milliseconds=1))
    elif isinstance(name, MetricName) and isinstance(given, Decimal) and isinstance(found, float):
        given = Decimal(repr(float(given)))
    if isinstance(found, float):
        found = Decimal(repr(found))
    if isinstance(found, bool) or isinstance(given, bool):
        return None if type(found) is not type(given) else OPERATORS[compared](found, given)
    if isinstance(found, int | Decimal) and isinstance(given, Decimal):
        return OPERATORS[compared](Decimal(found), given)
    return OPERATORS[compared](found, given) if isinstance(found, str) and isinstance(given, str) else None


def value_of(name: Name, job: GivenJob) -> Any:
    """Returns what a job has under a name; None if it doesn't have it."""
    match name:
        case ParameterPath():
            params = {**job.reported, **job.params}
            nested: Any = params
            for part in name.path:
                nested = nested.get(part) if isinstance(nested, dict) else None
            return nested if nested is not None else params.get(".".join(name.path))
        case MetricName():
            attempts = job.metrics.get(name.tag)
            return None if attempts is None else _statistic(name.statistic, attempts[max(attempts)])
        case FieldName():
            return _field(name.name, job)


def _statistic(statistic: str, points: Any) -> Any:
    finite = [value for value in points.values() if math.isfinite(value)]
    last = points[max(points)]
    found = {
        "last": None if math.isnan(last) else last,
        "min": min(finite, default=None),
        "max": max(finite, default=None),
        "mean": sum(finite) / len(finite) if finite else None,
        "count": len(points),
        "first_step": min(points),
        "last_step": max(points),
        "non_finite": len(points) - len(finite),
    }
    return found[statistic]


def _field(name: str, job: GivenJob) -> Any:
    steps = [step for attempts in job.metrics.values() for points in attempts.values() for step in points]
    times = [*steps, *([0] if job.reported else [])]
    started = job.fields.get("started_ms") if job.fields else min(times, default=FOUND_MS)
    ended = job.fields.get("ended_ms")
    own = [step for tag, attempts in job.metrics.items() for points in attempts.values() for step in points]
    found = {
        "id": job.job_id,
        "stream": job.stream,
        "kind": "task" if job.fields else "directory",
        "attempts": 1 if job.fields else None,
        "queue": "default" if job.fields else None,
        "started_at": started,
        "ended_at": ended,
        "updated_at": max([*times, *(each for each in (started, ended) if each is not None)]),
        "duration_s": None if ended is None or started is None else Decimal(ended - started) / 1000,
        "last_step": max([*own, *([0] if job.reported else [])], default=None),
        "points": len(steps),
        "items": 1 if job.reported else 0,
        "state": job.status.lower(),
        "base": None if job.fields else BASE,
        "path": None if job.fields else f"runs/{job.job_id}",
        "tag": job.tag,
        "remark": job.remark,
    }
    return job.fields[name] if name in job.fields else found.get(name)


def random_condition(random: Random, jobs: list[GivenJob], levels: int = 3) -> str:
    """Draws a condition as a user would write it; its names and values are mostly such as jobs have."""
    kind = random.random()
    if levels and kind < 0.25:
        parts = [random_condition(random, jobs, levels - 1) for _ in range(random.randint(2, 3))]
        return random.choice((" and ", " or ")).join(f"({part})" for part in parts)
    if levels and kind < 0.4:
        return f"not ({random_condition(random, jobs, levels - 1)})"
    name = _random_name(random, jobs)
    shown = shown_name(name)
    if name == FieldName("tags"):
        return (
            f"{shown} contains {_literal(random.choice([*random.choice(jobs).metrics, 'los', '_hparams_']))}"
        )
    value = _random_value(random, name, jobs)
    test = random.random()
    if test < 0.1:
        return f"{shown} is null"
    if test < 0.25:
        values = [_random_value(random, name, jobs) for _ in range(random.randint(1, 3))]
        return f"{shown} in ({', '.join(map(_literal, values))})"
    texts = isinstance(name, ParameterPath) or (
        isinstance(name, FieldName) and FIELDS[name.name].column == "text" and not FIELDS[name.name].values
    )
    if texts and isinstance(value, str) and test < 0.5:
        at = random.randint(0, len(value))
        return f"{shown} contains {_literal(value[at : at + random.randint(0, 3)])}"
    compared = random.choice(("==", "!=") if isinstance(value, bool) else list(OPERATORS))
    return f"{shown} {compared} {_literal(value)}"


def _random_name(random: Random, jobs: list[GivenJob]) -> Name:
    job = random.choice(jobs)
    kinds = [
        "field",
        *(["params"] if job.params or job.reported else []),
        *(["metrics"] if job.metrics else []),
    ]
    match random.choice(kinds):
        case "params":
            params = {**job.reported, **job.params}
            key = random.choice(list(params))
            inner = params[key]
            return ParameterPath((key, random.choice(list(inner))) if isinstance(inner, dict) else (key,))
        case "metrics":
            return MetricName(random.choice(list(job.metrics)), random.choice(STATISTICS))
        case _:
            return FieldName(random.choice(list(FIELDS)))


def _random_value(random: Random, name: Name, jobs: list[GivenJob]) -> Any:
    """Draws a value of a type that a name can be compared with."""
    found = value_of(name, random.choice(jobs))
    if isinstance(name, FieldName):
        known = FIELDS[name.name]
        if known.values:
            return random.choice(sorted(known.values))
        if known.column == "time":
            return (EPOCH + timedelta(milliseconds=int(found or 0))).isoformat()
        if known.column == "text":
            return found if isinstance(found, str) else random.choice(["a", ""])
    if isinstance(found, str | bool) and not isinstance(name, MetricName):
        return found
    if isinstance(found, int | float | Decimal) and math.isfinite(found) and random.random() < 0.8:
        return Decimal(repr(found)) if isinstance(found, float) else Decimal(found)
    if isinstance(name, ParameterPath) and random.random() < 0.3:
        return random.choice(["adam", True, False, "10"])
    return Decimal(random.choice(["0", "1", "-2.5", "0.001", "1e300", "10"]))


def _literal(value: Any) -> str:
    return str(value) if isinstance(value, Decimal) else json.dumps(value)
