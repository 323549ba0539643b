"""Rows of metric points and other values, the same for the summary indexer and a rebuild."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from hashlib import blake2b
from itertools import groupby, repeat
from math import inf, isfinite
from operator import itemgetter
from typing import NamedTuple

from trackside.contracts.tasks.summaries import (
    MetricPointsReported,
    Series,
    SummariesPurged,
    SummaryItemsReported,
    SummaryUpdaterFailed,
)
from trackside.contracts.tasks.tasks import NonFinite
from trackside.domain.rows.cells import bigint, bigints, json_text, without_nul
from trackside.domain.rows.table import RowValues
from trackside.projections.tables.decimal_sums import decimal_sums

SCALAR = "scalar"
ATTEMPT_LIMIT = 2**31 - 1
NON_FINITE_CODES: dict[NonFinite, int] = {"nan": 1, "inf": 2, "-inf": 3}
"""What `non_finite` has in the rows of points whose value is NULL; NULL too where a record doesn't say."""
NO_CODES = repeat(None)
"""The codes of points that are finite."""
SYSTEM_TAGS = "system/"
"""What the tags of a worker's own measurements begin with; their steps are not those of the training."""

Reported = MetricPointsReported | SummaryItemsReported | SummariesPurged | SummaryUpdaterFailed
"""The records of the topic of metrics."""


class SeriesPart(NamedTuple):
    """Some points of a series by column, all of the same length.

    `codes` is None if all values are finite, else `finite` has those that are.
    """

    steps: Sequence[int]
    times_ms: Sequence[int]
    values: Sequence[float | None]
    codes: Sequence[int | None] | None
    finite: Sequence[float]


@dataclass(slots=True)
class MetricRows:
    """Rows of records: of `SERIES` by number, and of the others as lists; only the first of a key counts.

    `columns` has the same points, as the records have them: by series, one part after another. `purged` are
    the jobs all of whose earlier rows are to be removed before these are written.
    """

    series: dict[int, RowValues] = field(default_factory=dict)
    points: list[RowValues] = field(default_factory=list)
    columns: dict[int, list[SeriesPart]] = field(default_factory=dict)
    items: list[RowValues] = field(default_factory=list)
    purged: list[str] = field(default_factory=list)
    failures: list[RowValues] = field(default_factory=list)

    def add(self, message: Reported) -> None:
        """Adds the rows of a record, or removes those of a purged job."""
        if isinstance(message, SummariesPurged):
            self._purge(without_nul(message.task_id))
            return
        if isinstance(message, SummaryUpdaterFailed):
            error, failures = without_nul(message.error), bigint(message.failures)
            self.failures.append((without_nul(message.name), bigint(message.time_ms), failures, error))
            return
        if isinstance(message, MetricPointsReported):
            for series in message.series:
                number = self._number(message, series.tag, SCALAR)
                if series.steps:
                    columns = _columns(series)
                    steps, times_ms, values, codes, _ = columns
                    self.points += zip(
                        repeat(number), steps, times_ms, values, codes or NO_CODES, strict=False
                    )
                    self.columns.setdefault(number, []).append(columns)
            return
        for item in message.items:
            held = item.artifact
            self.items.append(
                (
                    self._number(message, item.tag, item.kind),
                    bigint(item.step),
                    item.index,
                    bigint(item.time_ms),
                    json_text(item.body),
                    None if held is None else held.sha256,
                    None if held is None else bigint(held.size_bytes),
                    None if held is None else without_nul(held.media_type),
                )
            )

    def leave_out(self, streams: Collection[str]) -> None:
        """Removes the rows of streams."""
        self._remove({number for number, row in self.series.items() if row[1] in streams})

    def _purge(self, job: str) -> None:
        self._remove({number for number, row in self.series.items() if row[2] == job})
        self.purged.append(job)

    def _remove(self, gone: Collection[int]) -> None:
        if gone:
            self.points = [row for row in self.points if row[0] not in gone]
            self.columns = {number: parts for number, parts in self.columns.items() if number not in gone}
            self.items = [row for row in self.items if row[0] not in gone]
            self.series = {number: row for number, row in self.series.items() if number not in gone}

    def _number(self, message: MetricPointsReported | SummaryItemsReported, tag: str, kind: str) -> int:
        """Returns the number of a series, which has a row now."""
        number = series_id(message.task_id, message.attempt, tag, kind)
        if number not in self.series:
            attempt = max(-ATTEMPT_LIMIT, min(message.attempt, ATTEMPT_LIMIT))
            stream, task = without_nul(message.stream), without_nul(message.task_id)
            self.series[number] = (number, stream, task, attempt, without_nul(tag), kind)
        return number


@lru_cache(maxsize=65_536)
def series_id(task_id: str, attempt: int, tag: str, kind: str = SCALAR) -> int:
    """Returns the number of a series: a signed 64-bit BLAKE2b of task, attempt, tag and other kind."""
    named = f"{task_id}\0{attempt}\0{tag}" if kind == SCALAR else f"{task_id}\0{attempt}\0{tag}\0{kind}"
    return int.from_bytes(blake2b(named.encode(), digest_size=8).digest(), "big", signed=True)


def rows_of(messages: Iterable[Reported]) -> MetricRows:
    """Returns the rows of many records, each series once."""
    rows = MetricRows()
    for message in messages:
        rows.add(message)
    return rows


def _columns(series: Series) -> SeriesPart:
    """Returns the columns of points: what is not finite has a code, and no value."""
    steps, times_ms, values = bigints(series.steps), bigints(series.times_ms), series.values
    if None not in values and all(map(isfinite, values)):  # type: ignore[arg-type]  # there is no None
        return SeriesPart(steps, times_ms, values, None, values)  # type: ignore[arg-type]
    codes: list[int | None] = [None] * len(values)
    finite = list(values)
    for at, value in enumerate(values):
        if value is not None and not isfinite(value):  # a foreign writer has written NaN as a number
            finite[at] = None
            codes[at] = NON_FINITE_CODES["inf" if value == inf else "-inf" if value == -inf else "nan"]
    for at, name in series.non_finite.items():
        if 0 <= at < len(values) and values[at] is None:
            codes[at] = NON_FINITE_CODES[name]
    return SeriesPart(steps, times_ms, finite, codes, [value for value in finite if value is not None])


def totals_of_points(rows: MetricRows, new: Sequence[RowValues]) -> list[RowValues]:
    """Returns the rows of `TOTALS` for points of `rows`, of which `new` are new: each series once, sorted."""
    columns = rows.columns
    if len(new) < len(rows.points):
        ordered = sorted(new, key=itemgetter(0))  # stable and mostly in runs: fast
        columns = {number: [_columns_of(found)] for number, found in groupby(ordered, itemgetter(0))}
    numbers = sorted(columns)
    finite = [[part.finite for part in columns[number]] for number in numbers]
    sums = decimal_sums(finite)
    return [_totals(rows.series[number], columns[number], sums[at]) for at, number in enumerate(numbers)]


def _columns_of(rows: Iterable[RowValues]) -> SeriesPart:
    _, steps, times_ms, values, codes = zip(*rows, strict=True)
    return SeriesPart(steps, times_ms, values, codes, [value for value in values if value is not None])


def _totals(series: RowValues, parts: Sequence[SeriesPart], total: Decimal) -> RowValues:
    ends = [max(part.steps) for part in parts]
    last_step = max(ends)
    newest = parts[ends.index(last_step)]
    last = newest.steps.index(last_step)
    finite = [part.finite for part in parts if part.finite]
    points = sum(len(part.steps) for part in parts)
    return (
        *_named(series),
        points,
        min(min(part.steps) for part in parts),
        last_step,
        newest.values[last],
        None if newest.codes is None else newest.codes[last],
        min(map(min, finite), default=None),
        max(map(max, finite), default=None),
        total,
        points - sum(map(len, finite)),
        min(min(part.times_ms) for part in parts),
        max(max(part.times_ms) for part in parts),
    )


def _named(series: RowValues) -> RowValues:
    """Returns what totals begin with: number, job, attempt, tag, kind, and that the attempt is the newest."""
    number, _, *names = series
    return (number, *names, True)


def totals_of_items(rows: MetricRows, new: Iterable[RowValues]) -> list[RowValues]:
    """Returns the rows of `TOTALS` for items that are new: a series of them has steps and times only."""
    found: list[RowValues] = []
    for number, items in groupby(sorted(new, key=itemgetter(0)), itemgetter(0)):
        of_series = list(items)
        steps, times_ms = [row[1] for row in of_series], [row[3] for row in of_series]
        numbers = (len(of_series), min(steps), max(steps), None, None, None, None, Decimal(0), 0)
        found.append((*_named(rows.series[number]), *numbers, min(times_ms), max(times_ms)))
    return found


def briefs_of(totals: Iterable[RowValues], series: dict[int, RowValues]) -> list[RowValues]:
    """Returns the rows of `BRIEFS` for totals of new rows, sorted by job; `series` has theirs."""
    found: dict[str, RowValues] = {}
    for row in totals:
        number, job, _, tag, kind, _, count, _, last_step, *_, first_ms, last_ms = row
        step = None if tag.startswith(SYSTEM_TAGS) else last_step
        points, items = (count, 0) if kind == SCALAR else (0, count)
        new = (job, series[number][1], points, items, step, first_ms, last_ms)
        found[job] = new if job not in found else _added(found[job], new)
    return [found[job] for job in sorted(found)]


def _added(old: RowValues, new: RowValues) -> RowValues:
    steps = [step for step in (old[4], new[4]) if step is not None]
    counts = (old[2] + new[2], old[3] + new[3])
    return (*old[:2], *counts, max(steps, default=None), min(old[5], new[5]), max(old[6], new[6]))
