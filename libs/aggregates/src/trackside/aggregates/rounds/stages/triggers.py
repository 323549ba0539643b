"""When a trigger holds, and when that changes next, by the numbers that are known. Pure.

Nothing polls: numbers change by events, and times are computed. `next_change` returns the time at which a
trigger has another result than before; at that time it is evaluated, and what it has seen is written.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Any

from trackside.aggregates.rounds.job.trigger_messages import (
    AllTriggers,
    AnyTrigger,
    ByCommand,
    CronTimes,
    DailyWindow,
    MetricCondition,
    Trigger,
)
from trackside.aggregates.rounds.messages import SeenMetric
from trackside.aggregates.rounds.stages import metrics
from trackside.contracts.envelope.refusals import Problem, nearest
from trackside.domain.times import cron
from trackside.domain.times.time_zones import check_zone, find_zone

EQUAL = 1e-6
"""Numbers that differ by less are equal."""
NUM_OF_SAMPLES = "num_of_samples"
NUM_OF_NEW_SAMPLES = "num_of_new_samples"
SINCE_LAST_ROUND = "seconds_since_last_round"
HARD_EXAMPLES = "hard_examples"
DRIFT = "drift"
TRAIN_METRICS = {
    NUM_OF_SAMPLES: "samples for training that are in no round yet, those of failed rounds included",
    NUM_OF_NEW_SAMPLES: "samples for training that have come since the last round began",
    SINCE_LAST_ROUND: "seconds since the last round ended, or the job was created",
    HARD_EXAMPLES: "hard examples that the inference services have counted since the last round began",
    DRIFT: "how much the newest samples differ from those before, as the detector of the dataset measures it",
}
"""The metrics that triggers of train and eval may name, each with its meaning: each is one number."""
_MINUTE_MS = 60_000
_DAY_MINUTES = 24 * 60
_LATEST_MS = 250_000_000_000_000
"""The year 9892: no time is looked for after that."""
_HORIZON_MS = 500 * _DAY_MINUTES * _MINUTE_MS
"""Windows that haven't met in all the days of a year, those on which clocks are set too, never do."""


@dataclass(frozen=True, slots=True)
class Known:
    """What triggers are evaluated with."""

    metrics: Mapping[str, Any] = field(default_factory=dict)
    """Numbers, and lists of them, by their names."""
    last_round_ms: int = 0
    """When the last round ended, or the job began, in ms since 1970."""
    waits_since_ms: int = 0
    """Since when the stage waits, in ms since 1970: times of cron that have passed since then count."""


def holds(trigger: Trigger | None, known: Known, now_ms: int, commanded: bool = False) -> bool:
    """Returns whether a trigger holds at a time; without one there is nothing to wait for.

    `commanded`: a person asks for it now, for which no time and no other command is waited, but conditions
    on numbers still count.
    """
    match trigger:
        case None:
            return True
        case MetricCondition():
            return compare(trigger, read(trigger.metric, known, now_ms))
        case DailyWindow():
            return commanded or _is_within(trigger, now_ms)
        case CronTimes():
            due_ms = _cron_due_ms(trigger, known)
            return commanded or (due_ms is not None and due_ms <= now_ms)
        case ByCommand():
            return commanded
        case AllTriggers():
            return all(holds(each, known, now_ms, commanded) for each in trigger.triggers)
        case AnyTrigger():
            return any(holds(each, known, now_ms, commanded) for each in trigger.triggers)


def waits_for_command(trigger: Trigger | None, known: Known | None = None, now_ms: int = 0) -> bool:
    """Returns whether a trigger never holds without a command, whatever numbers and times come.

    With what is known at a time: whether, by these numbers, it only holds later with a command.
    """
    if known is not None:
        if trigger is None or can_hold_later(trigger, known, now_ms):
            return False
        return can_hold_later(_with_commands(trigger), known, now_ms)
    match trigger:
        case ByCommand():
            return True
        case AllTriggers():
            return any(map(waits_for_command, trigger.triggers))
        case AnyTrigger():
            return all(map(waits_for_command, trigger.triggers))
        case _:
            return False


def _with_commands(trigger: Trigger) -> Trigger:
    """Returns a trigger with one that always holds in place of each that waits for a command."""
    match trigger:
        case ByCommand():
            return DailyWindow(type="daily", start="00:00", end="24:00")
        case AllTriggers() | AnyTrigger():
            return trigger.model_copy(update={"triggers": list(map(_with_commands, trigger.triggers))})
        case _:
            return trigger


def can_hold_later(trigger: Trigger | None, known: Known, now_ms: int) -> bool:
    """Returns whether a trigger holds now or at a later time if its numbers stay as they are."""
    return next_change(trigger, known, now_ms, before=False) is not None


def compare(condition: MetricCondition, seen: SeenMetric) -> bool:
    """Returns whether a condition holds for a number; none holds for a missing one."""
    value, threshold = seen.value, condition.threshold
    if not isinstance(value, float):
        return False
    equal = abs(value - threshold) < EQUAL
    match condition.operator:
        case ">":
            return value > threshold and not equal
        case ">=":
            return value > threshold or equal
        case "==":
            return equal
        case "!=":
            return not equal
        case "<=":
            return value < threshold or equal
        case "<":
            return value < threshold and not equal


def read(metric: str, known: Known, now_ms: int) -> SeenMetric:
    """Returns the number that a metric has at a time."""
    if metric.strip() == SINCE_LAST_ROUND:
        return SeenMetric(value=max(0, now_ms - known.last_round_ms) / 1000)
    return metrics.read(metric, known.metrics)


def seen(trigger: Trigger | None, known: Known, now_ms: int) -> dict[str, SeenMetric]:
    """Returns the numbers that a trigger sees at a time, by their metrics."""
    return {condition.metric: read(condition.metric, known, now_ms) for condition in conditions_of(trigger)}


def conditions_of(trigger: Trigger | None) -> Iterator[MetricCondition]:
    """Yields the conditions in a trigger."""
    if isinstance(trigger, MetricCondition):
        yield trigger
    elif isinstance(trigger, AllTriggers | AnyTrigger):
        for each in trigger.triggers:
            yield from conditions_of(each)


def next_change(trigger: Trigger | None, known: Known, from_ms: int, before: bool) -> int | None:
    """Returns the first time, not before another one, at which a trigger has another result than `before`.

    None if it keeps that as long as its numbers do. `holds` has the other result at this time, in ms since
    1970; times of day are looked for until a year after the last other time that the trigger has.
    """
    if trigger is None:
        return None if before else from_ms
    singular = [ms for ms in _singular_times(trigger, known) if from_ms < ms <= _LATEST_MS]
    search = _Search(known, min(_LATEST_MS, max([from_ms, *singular]) + _HORIZON_MS))
    return search.first(trigger, from_ms, not before)


@dataclass(slots=True)
class _Search:
    """Looks for times up to a last one. Each part of a trigger is looked at once for each time of its own."""

    known: Known
    last_ms: int
    found: dict[tuple[int, bool], tuple[int, int | None]] = field(default_factory=dict)
    """What was found for a part and a result: after which time, and when."""

    def first(self, trigger: Trigger, from_ms: int, wanted: bool) -> int | None:
        """Returns the first time, not before another one, at which a trigger has a result."""
        key = id(trigger), wanted
        if key in self.found:
            after_ms, at_ms = self.found[key]
            if after_ms <= from_ms and (at_ms is None or at_ms >= from_ms):
                return at_ms
        at_ms = self._look(trigger, from_ms, wanted)
        at_ms = None if at_ms is None or at_ms > self.last_ms else at_ms
        self.found[key] = from_ms, at_ms
        return at_ms

    def _look(self, trigger: Trigger, from_ms: int, wanted: bool) -> int | None:
        match trigger:
            case MetricCondition():
                times = [from_ms, *(ms for ms in _crossings(trigger, self.known) if ms > from_ms)]
                return next((ms for ms in times if holds(trigger, self.known, ms) is wanted), None)
            case DailyWindow():
                return _first_of_day(trigger, from_ms, wanted)
            case CronTimes():
                due_ms = _cron_due_ms(trigger, self.known)
                if wanted:
                    return None if due_ms is None else max(from_ms, due_ms)
                return from_ms if due_ms is None or due_ms > from_ms else None
            case ByCommand():
                return None if wanted else from_ms
            case AllTriggers() | AnyTrigger():
                if isinstance(trigger, AllTriggers) is wanted:
                    return self._all(trigger.triggers, from_ms, wanted)
                found = (self.first(each, from_ms, wanted) for each in trigger.triggers)
                return min((ms for ms in found if ms is not None), default=None)

    def _all(self, triggers: list[Trigger], from_ms: int, wanted: bool) -> int | None:
        """Returns the first time at which all triggers have a result."""
        while True:
            at_ms = from_ms
            for each in triggers:
                found = self.first(each, at_ms, wanted)
                if found is None:
                    return None
                at_ms = found
            if at_ms == from_ms:
                return at_ms
            from_ms = at_ms


def _singular_times(trigger: Trigger, known: Known) -> Iterator[int]:
    """Yields the times at which parts change their results once, not each day."""
    match trigger:
        case MetricCondition():
            yield from _crossings(trigger, known)
        case CronTimes():
            if (due_ms := _cron_due_ms(trigger, known)) is not None:
                yield due_ms
        case AllTriggers() | AnyTrigger():
            for each in trigger.triggers:
                yield from _singular_times(each, known)


def _crossings(condition: MetricCondition, known: Known) -> Iterator[int]:
    """Yields the times around that at which a number crosses a threshold by waiting, in ascending order."""
    if condition.metric.strip() == SINCE_LAST_ROUND:
        crossing_ms = known.last_round_ms + condition.threshold * 1000
        if 0 <= crossing_ms <= _LATEST_MS:
            yield from (int(crossing_ms) + step for step in (-1, 0, 1, 2))


def _cron_due_ms(trigger: CronTimes, known: Known) -> int | None:
    """Returns the first time of an expression since the stage waits, in ms since 1970."""
    return cron.next_ms(trigger.cron, trigger.timezone, known.waits_since_ms)


def _is_within(window: DailyWindow, now_ms: int) -> bool:
    """Returns whether a wall clock is within a window: by its minutes, as Sedna compares texts."""
    begin, end = _minutes(window.start), _minutes(window.end)
    zone = find_zone(window.timezone)
    if zone is None:
        return False
    minute = _local_ms(zone, now_ms) // _MINUTE_MS % _DAY_MINUTES
    return begin <= minute <= end if begin <= end else minute >= begin or minute <= end


def _first_of_day(window: DailyWindow, from_ms: int, wanted: bool) -> int | None:
    """Returns the first time, not before another one, at which a clock is within a window, or is not."""
    zone = find_zone(window.timezone)
    if zone is None:
        return None if wanted else from_ms
    edges = _minutes(window.start) % _DAY_MINUTES, (_minutes(window.end) + 1) % _DAY_MINUTES
    if window.end == "24:00":
        edges = edges[0], 0
    at_ms = from_ms
    for _ in range(_MAX_EDGES):
        if _is_within(window, at_ms) is wanted:
            return at_ms
        local_ms = _local_ms(zone, at_ms) % (_DAY_MINUTES * _MINUTE_MS)
        waits = ((edge * _MINUTE_MS - local_ms) % (_DAY_MINUTES * _MINUTE_MS) for edge in edges)
        edge_ms = at_ms + min(ms or _DAY_MINUTES * _MINUTE_MS for ms in waits)
        at_ms = _clock_set_ms(zone, at_ms, edge_ms) or edge_ms
    return None  # a window of all minutes of a day


_MAX_EDGES = 10
"""After so many edges a clock has been within each window, and outside, unless that is all or nothing."""


def _clock_set_ms(zone: tzinfo, after_ms: int, until_ms: int) -> int | None:
    """Returns when a clock is set, between two times at most a day apart; None if it isn't."""
    before = _local_ms(zone, after_ms) - after_ms
    if _local_ms(zone, until_ms) - until_ms == before:
        return None
    low, high = after_ms // 1000, -(-until_ms // 1000)
    while high - low > 1:
        middle = (low + high) // 2
        if _local_ms(zone, middle * 1000) - middle * 1000 == before:
            low = middle
        else:
            high = middle
    return high * 1000 if high * 1000 < until_ms else None


def _local_ms(zone: tzinfo, now_ms: int) -> int:
    """Returns what a wall clock shows, as ms since 1970 on this clock."""
    offset = datetime.fromtimestamp(now_ms // 1000, zone).utcoffset()
    assert offset is not None
    return now_ms + (offset.days * 86_400 + offset.seconds) * 1000


def _minutes(text: str) -> int:
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)


def problems(trigger: Trigger | None, path: str, names: frozenset[str] | None = None) -> Iterator[Problem]:
    """Yields what is wrong with a trigger at a path; `names` are the metrics that there are, if known."""
    match trigger:
        case MetricCondition():
            yield from _condition_problem(trigger, path, names)
        case DailyWindow():
            if trigger.start == trigger.end:
                message = f"the window from {trigger.start} to {trigger.end} is empty; expected another end"
                yield Problem(code="empty_window", path=f"{path}.end", message=message)
            yield from check_zone(trigger.timezone, f"{path}.timezone")
        case CronTimes():
            yield from cron.check_cron(trigger.cron, trigger.timezone, path)
        case AllTriggers() | AnyTrigger():
            for at, each in enumerate(trigger.triggers):
                yield from problems(each, f"{path}.triggers[{at}]", names)


def _condition_problem(
    condition: MetricCondition, path: str, names: frozenset[str] | None
) -> Iterator[Problem]:
    message, field_name = metrics.metric_problem(condition.metric), "metric"
    name = metrics.name_of(condition.metric)
    if not message and names is not None and name not in names:
        listed = ", ".join(sorted(names))
        message = f"there is no metric {name!r}; expected one of: {listed}{nearest(name, names)}"
    elif (
        not message and names is not None and name in TRAIN_METRICS and not metrics.is_plain(condition.metric)
    ):
        message = f"{name} is a number, not a list; write {name}"
    elif name == SINCE_LAST_ROUND and condition.operator in ("==", "!="):
        message = f"{name} passes every number; expected another operator, such as >="
        field_name = "operator"
    if message:
        yield Problem(code="unknown_value", path=f"{path}.{field_name}", message=message)
