"""When a trigger holds, and when that changes next, by the numbers that are known. Pure.

Nothing polls: numbers change by events, and times are computed. `next_change` returns the time at which a
trigger has another result than before; at that time it is evaluated, and what it has seen is written.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from trackside.aggregates.rounds import metrics
from trackside.aggregates.rounds.messages import SeenMetric
from trackside.aggregates.rounds.trigger_messages import (
    AllOf,
    AnyOf,
    ByCommand,
    CronTimes,
    DailyWindow,
    MetricCondition,
    Trigger,
)
from trackside.contracts.refusals import Problem
from trackside.domain import cron

EQUAL = 1e-6
"""Numbers that differ by less are equal."""
SINCE_LAST_ROUND = "seconds_since_last_round"
MAX_LOOKS = 1_000
"""How many times in the future are looked at; a trigger that has not changed then is looked at again."""


@dataclass(frozen=True, slots=True)
class Known:
    """What triggers are evaluated with."""

    metrics: Mapping[str, Any] = field(default_factory=dict)
    """Numbers, and lists of them, by their names."""
    last_round_ms: int = 0
    """When the last round ended, or the job began, in ms since 1970."""
    waits_since_ms: int = 0
    """Since when the stage waits, in ms since 1970: times of cron that have passed since then count."""


def holds(trigger: Trigger | None, known: Known, now_ms: int) -> bool:
    """Says whether a trigger holds at a time; without one there is nothing to wait for."""
    match trigger:
        case None:
            return True
        case MetricCondition():
            return compare(trigger, read(trigger.metric, known, now_ms))
        case DailyWindow():
            return _is_within(trigger, now_ms)
        case CronTimes():
            found = cron.next_ms(trigger.cron, trigger.timezone, known.waits_since_ms)
            return found is not None and found <= now_ms
        case ByCommand():
            return False
        case AllOf():
            return all(holds(each, known, now_ms) for each in trigger.triggers)
        case AnyOf():
            return any(holds(each, known, now_ms) for each in trigger.triggers)


def compare(condition: MetricCondition, seen: SeenMetric) -> bool:
    """Says whether a condition holds of a number; of a missing one none does."""
    value, threshold = seen.value, condition.threshold
    if not isinstance(value, float):
        return False
    equal = abs(value - threshold) < EQUAL
    match condition.operator:
        case ">":
            return value > threshold
        case ">=":
            return value > threshold or equal
        case "==":
            return equal
        case "!=":
            return not equal
        case "<=":
            return value < threshold or equal
        case "<":
            return value < threshold


def read(metric: str, known: Known, now_ms: int) -> SeenMetric:
    """Returns the number that a metric has at a time."""
    if metric == SINCE_LAST_ROUND:
        return SeenMetric(value=max(0, now_ms - known.last_round_ms) / 1000)
    return metrics.read(metric, known.metrics)


def seen(trigger: Trigger | None, known: Known, now_ms: int) -> dict[str, SeenMetric]:
    """Returns the numbers that a trigger sees at a time, by their metrics."""
    return {condition.metric: read(condition.metric, known, now_ms) for condition in conditions_of(trigger)}


def conditions_of(trigger: Trigger | None) -> Iterator[MetricCondition]:
    """Yields the conditions in a trigger."""
    if isinstance(trigger, MetricCondition):
        yield trigger
    elif isinstance(trigger, AllOf | AnyOf):
        for each in trigger.triggers:
            yield from conditions_of(each)


def next_change(trigger: Trigger | None, known: Known, from_ms: int, before: bool) -> int | None:
    """Returns the first time, not before another one, at which a trigger has another result than `before`.

    None if it keeps that as long as its numbers do; for one that has not had another for a very long time,
    the time to look again.
    """
    at_ms = from_ms
    for _ in range(MAX_LOOKS):
        if holds(trigger, known, at_ms) is not before:
            return at_ms
        following = min((ms for ms in _changes(trigger, known, at_ms) if ms > at_ms), default=None)
        if following is None:
            return None
        at_ms = following
    return at_ms


def _changes(trigger: Trigger | None, known: Known, after_ms: int) -> Iterator[int]:
    """Yields times at which a part of a trigger may have another result than at an earlier one."""
    match trigger:
        case MetricCondition(metric=metric, threshold=threshold) if metric == SINCE_LAST_ROUND:
            crossing_ms = known.last_round_ms + threshold * 1000
            if crossing_ms < 2**53:
                yield from (int(crossing_ms) + step for step in (-1, 0, 1, 2))
        case DailyWindow():
            yield from _edges(trigger, after_ms)
        case CronTimes():
            found = cron.next_ms(trigger.cron, trigger.timezone, max(known.waits_since_ms, after_ms))
            if found is not None:
                yield found
        case AllOf() | AnyOf():
            for each in trigger.triggers:
                yield from _changes(each, known, after_ms)


def _is_within(window: DailyWindow, now_ms: int) -> bool:
    """Says whether a wall clock is within a window: as texts HH:MM, as Sedna compares them."""
    now = datetime.fromtimestamp(now_ms / 1000, _zone(window.timezone)).strftime("%H:%M")
    if window.start <= window.end:
        return window.start <= now <= window.end
    return now >= window.start or now <= window.end


def _edges(window: DailyWindow, after_ms: int) -> Iterator[int]:
    """Yields the next times at which the wall clock enters or leaves a window, or is set to another hour."""
    zone = _zone(window.timezone)
    day = datetime.fromtimestamp(after_ms / 1000, zone).date()
    for days in (-1, 0, 1, 2):
        for text, minutes in ((window.start, 0), (window.end, 1)):
            hour, minute = (int(part) for part in text.split(":"))
            start = datetime(day.year, day.month, day.day, tzinfo=zone) + timedelta(days=days)
            for fold in (0, 1):  # an hour that comes twice
                edge = start + timedelta(minutes=60 * hour + minute + minutes)
                yield int(edge.replace(fold=fold).timestamp() * 1000)
    yield from _clock_changes(zone, after_ms)


def _clock_changes(zone: tzinfo, after_ms: int) -> Iterator[int]:
    """Yields the quarter of an hour in the next two days in which the clock is set, if it is."""
    step_ms = 15 * 60_000
    first_ms = after_ms - after_ms % step_ms
    before = datetime.fromtimestamp(first_ms / 1000, zone).utcoffset()
    for number in range(1, 2 * 24 * 4 + 1):
        at_ms = first_ms + number * step_ms
        offset = datetime.fromtimestamp(at_ms / 1000, zone).utcoffset()
        if offset != before:
            yield at_ms
            return


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC  # this host has no such zone; the one that accepted it had


def problems(trigger: Trigger | None, path: str, names: frozenset[str] | None = None) -> Iterator[Problem]:
    """Yields what is wrong with a trigger at a path; `names` are the metrics that there are, if known."""
    match trigger:
        case MetricCondition():
            if message := metrics.metric_problem(trigger.metric):
                yield Problem(code="unknown_value", path=f"{path}.metric", message=message)
            elif names is not None and metrics.name_of(trigger.metric) not in names:
                listed = ", ".join(sorted(names))
                message = f"there is no metric {trigger.metric!r}; expected one of: {listed}"
                yield Problem(code="unknown_value", path=f"{path}.metric", message=message)
        case DailyWindow():
            if trigger.start == trigger.end:
                message = f"the window from {trigger.start} to {trigger.end} is empty; expected another end"
                yield Problem(code="empty_window", path=f"{path}.end", message=message)
            yield from _zone_problem(trigger.timezone, path)
        case CronTimes():
            yield from cron.check_cron(trigger.cron, trigger.timezone, path)
        case AllOf() | AnyOf():
            for at, each in enumerate(trigger.triggers):
                yield from problems(each, f"{path}.triggers[{at}]", names)


def _zone_problem(name: str, path: str) -> Iterator[Problem]:
    try:
        if name != "UTC":
            ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        message = f"{name!r} is no time zone; expected a name such as Europe/Berlin or UTC"
        yield Problem(code="unknown_value", path=f"{path}.timezone", message=message)
