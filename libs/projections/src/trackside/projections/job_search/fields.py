"""The fields that every job has, their types, and which tests fit them. Pure."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Literal

from trackside.contracts.envelope.refusals import nearest
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.domain.tasks.task import TaskState
from trackside.projections.job_search.expressions import (
    Compared,
    Contains,
    FieldName,
    GivenValue,
    InList,
    JobTest,
    Literals,
    MetricName,
    Missing,
    Name,
    SearchRefused,
)

FieldType = Literal["integer", "float", "text", "time", "tags", "json"]
"""The type of a column: `integer` and `float` are numbers, `json` is a parameter, which may be anything."""


@dataclass(frozen=True, slots=True)
class JobField:
    """A field: its column in `queries/jobs.sql` or in a table joined to it, type, and values if few."""

    sql: str
    column: FieldType
    values: frozenset[str] = frozenset()


KINDS = frozenset({"task", "directory"})
STATES = frozenset({*TaskState, "vanished"})
"""The states of tasks; a directory is active, or has vanished from the disk."""
FIELDS: Mapping[str, JobField] = {
    "id": JobField("job.id", "text"),
    "stream": JobField("job.stream", "text"),
    "kind": JobField("job.kind", "text", KINDS),
    "name": JobField("job.name", "text"),
    "base": JobField("job.base", "text"),
    "path": JobField("job.path", "text"),
    "state": JobField("job.state", "text", STATES),
    "ending": JobField("job.ending", "text", frozenset(AttemptEnd)),
    "task_type": JobField("job.task_type", "text"),
    "queue": JobField("job.queue", "text"),
    "worker": JobField("job.worker", "text"),
    "trial": JobField("job.trial", "integer"),
    "attempts": JobField("job.attempts", "integer"),
    "objective": JobField("nullif(job.objective, 'NaN')", "float"),
    "started_at": JobField("job.started_ms", "time"),
    "ended_at": JobField("job.ended_ms", "time"),
    "updated_at": JobField("greatest(brief.last_ms, job.ended_ms, job.started_ms)", "time"),
    "duration_s": JobField("((job.ended_ms - job.started_ms) / 1000.0)", "integer"),
    "last_step": JobField("brief.last_step", "integer"),
    "points": JobField("coalesce(brief.points, 0)", "integer"),
    "items": JobField("coalesce(brief.items, 0)", "integer"),
    "tag": JobField("job.tag", "integer"),
    "remark": JobField("job.remark", "text"),
    "tags": JobField("", "tags"),
}
"""The fields by name; times are in ms since 1970."""
COLUMN_OF_STATISTIC: Mapping[str, FieldType] = {
    **dict.fromkeys(("last", "min", "max", "mean"), "float"),
    **dict.fromkeys(("count", "first_step", "last_step", "non_finite"), "integer"),
}
_PLAIN = re.compile(r"[^\W\d][\w/-]*")
_EPOCH, _MILLISECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)
_ORDER = frozenset({"<", "<=", ">", ">="})


def column_of(name: Name) -> FieldType:
    """Returns the type of a name's column."""
    if isinstance(name, FieldName):
        return FIELDS[name.name].column
    return COLUMN_OF_STATISTIC[name.statistic] if isinstance(name, MetricName) else "json"


def shown_name(name: Name) -> str:
    """Returns a name as a user writes it; parts that are no plain words are in quotes."""
    if isinstance(name, FieldName):
        return name.name
    if isinstance(name, MetricName):
        return f"metrics.{_quoted(name.tag)}.{name.statistic}"
    return ".".join(("params", *map(_quoted, name.path)))


def _quoted(part: str) -> str:
    return part if _PLAIN.fullmatch(part) else json.dumps(part, ensure_ascii=False)


def moment_ms(value: GivenValue) -> int:
    """Returns the time that a text names, in ms since 1970, in UTC without a zone. Raises SearchRefused."""
    try:
        moment = datetime.fromisoformat(str(value.value))
    except ValueError:
        message = "expected a date or a time such as 2026-01-31 or 2026-01-31T12:00:00Z"
        raise SearchRefused("wrong_type", message, at=value.at) from None
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return round((zoned - _EPOCH) / _MILLISECOND)


def check_test(test: JobTest) -> None:
    """Raises SearchRefused if a test doesn't fit the type of what it names."""
    column = column_of(test.name)
    if isinstance(test, Contains):
        _check_contains(test, column)
        return
    if column == "tags":
        hint = 'tags has the names of metrics: write tags contains "loss"'
        raise SearchRefused("wrong_type", hint, at=test.name.at)
    if isinstance(test, Missing):
        return
    ordered = isinstance(test, Compared) and test.operator in _ORDER
    for value in test.values if isinstance(test, InList) else (test.value,):
        if ordered and isinstance(value.value, bool):
            message = "true and false have no order: compare them by == or !="
            raise SearchRefused("wrong_type", message, at=value.at)
        _check_value(test.name, column, value)


def _check_contains(test: Contains, column: FieldType) -> None:
    if column not in ("text", "tags", "json"):
        message = f"{shown_name(test.name)} has no text: contains is for texts and tags"
        raise SearchRefused("wrong_type", message, at=test.name.at)
    if not isinstance(test.value.value, str):
        raise SearchRefused("wrong_type", "expected a text in quotes after contains", at=test.value.at)


def _check_value(name: Name, column: FieldType, value: GivenValue) -> None:
    shown, given = shown_name(name), value.value
    if column in ("integer", "float") and not isinstance(given, Decimal):
        raise SearchRefused("wrong_type", f"{shown} is a number, got {_kind(given)}", at=value.at)
    if column in ("text", "time") and not isinstance(given, str):
        raise SearchRefused("wrong_type", f"{shown} is a {column}, got {_kind(given)}", at=value.at)
    if column == "time":
        moment_ms(value)
    known = FIELDS[name.name].values if isinstance(name, FieldName) else frozenset[str]()
    if known and given not in known:
        hint = nearest(str(given), known) or f"; expected {', '.join(sorted(known))}"
        raise SearchRefused("unknown_value", f"{shown} is never {given!r}{hint}", at=value.at)


def _kind(given: Literals) -> str:
    return "a text" if isinstance(given, str) else "true or false" if isinstance(given, bool) else "a number"
