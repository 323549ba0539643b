"""Values that are no numbers: images, histograms, texts, tensors, graphs and so on, as they are stored."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from trackside.projections.database.postgres import Connection, sql
from trackside.projections.summaries.errors import SummaryReadRefused, quoted, unknown_tag
from trackside.projections.summaries.jobs import read_job
from trackside.projections.summaries.points import INT64_MAX, PointRange
from trackside.projections.summaries.series import SeriesExtent, read_series
from trackside.projections.summaries.tags import read_tags
from trackside.summaries.kinds.kind import SummaryKind
from trackside.summaries.kinds.registry import KINDS
from trackside.summaries.kinds.scalar import SCALAR

MAX_STEPS = 1_000
"""How many steps a read returns."""
MAX_BODIES = 2_000
"""How many values a read returns: a body has up to 32 KiB."""


@dataclass(frozen=True, slots=True)
class StoredValue:
    """A value of a step as it is stored: its body, and where its bytes are artifacts, those of `sha256`.

    `index` counts the values of a tag and step, times are ms since 1970.
    """

    job_id: str
    attempt: int
    tag: str
    kind: str
    step: int
    index: int
    time_ms: int
    body: dict[str, Any]
    sha256: str | None
    size_bytes: int | None
    media_type: str | None


@dataclass(frozen=True, slots=True)
class ValuePage:
    """Values by step, and how many steps with values there are in the range before they are thinned."""

    values: list[StoredValue]
    steps: int


@dataclass(frozen=True, slots=True)
class ValueQuery:
    """Which values are read: of one job, kind and tag, at no more than `limit` steps.

    Without a limit they are as many as a page of the kind has. Those of superseded attempts or sessions are
    left out unless asked for.
    """

    job_id: str
    kind: str
    tag: str
    within: PointRange = field(default_factory=PointRange)
    limit: int | None = None
    superseded: bool = False


async def read_values(connection: Connection, query: ValueQuery) -> ValuePage:
    """Returns the values of a tag, the first and the last step always among them.

    A job without values of its own so far has none. Raises SummaryReadRefused.
    """
    limit = known_kind(query.kind).page_size if query.limit is None else query.limit
    if not 1 <= limit <= MAX_STEPS:
        raise SummaryReadRefused(
            "bad_query", "limit", f"a limit of {limit} steps; expected 1 to {MAX_STEPS:,}"
        )
    series = await _series(connection, query)
    if not series:
        return ValuePage([], 0)
    numbers, ends, within = [each.series for each in series], _ends(series, query), query.within
    bounds = (within.first_step, within.last_step, within.first_ms, within.last_ms)
    rows = await connection.fetch(sql("queries", "summary_item_steps"), numbers, ends, *bounds)
    steps = [row["step"] for row in rows]
    shown = [steps[at] for at in known_kind(query.kind).thin(steps, limit)]
    return ValuePage(await _values(connection, query, series, shown), len(steps))


async def read_value(connection: Connection, query: ValueQuery, step: int, index: int = 0) -> StoredValue:
    """Returns the value of one step, of those of the newest attempt that has it.

    Raises SummaryReadRefused, for a step without a value with the nearest ones that have one.
    """
    known_kind(query.kind)
    series = await _series(connection, query)
    found = await _values(connection, query, series, [step])
    chosen = [value for value in found if value.index == index]
    if chosen:
        return max(chosen, key=lambda value: value.attempt)
    rows = await connection.fetch(
        sql("queries", "summary_item_steps"),
        [each.series for each in series],
        _ends(series, query),
        *(PointRange().first_step, INT64_MAX, PointRange().first_ms, INT64_MAX),
    )
    near = sorted((row["step"] for row in rows), key=lambda other: abs(other - step))[:2]
    what = f"tag {quoted(query.tag)} has no {query.kind} {index} at step {step}"
    hint = f"the nearest steps with values: {', '.join(map(str, sorted(near)))}" if near else ""
    raise SummaryReadRefused("unknown_step", "step", what, hint)


def known_kind(name: str) -> SummaryKind:
    """Returns a kind whose values are items; raises SummaryReadRefused for any other name."""
    kind = KINDS.get(name)
    if kind is None or kind is SCALAR:
        expected = f"expected one of {', '.join(sorted(set(KINDS) - {SCALAR.name}))}"
        raise SummaryReadRefused("bad_query", "kind", f"there is no kind {quoted(name)}; {expected}")
    return kind


async def _series(connection: Connection, query: ValueQuery) -> list[SeriesExtent]:
    found = await read_series(connection, [query.job_id], query.kind, [query.tag])
    if not found:
        job = await read_job(connection, query.job_id)
        if job.points or job.items:
            known = await read_tags(connection, query.job_id, query.kind)
            raise unknown_tag(query.job_id, query.tag, [each.tag for each in known])
    return [each for each in found if query.superseded or each.counts]


def _ends(series: Sequence[SeriesExtent], query: ValueQuery) -> list[int]:
    if query.superseded:
        return [INT64_MAX] * len(series)
    return [INT64_MAX if each.counted_below is None else each.counted_below - 1 for each in series]


async def _values(
    connection: Connection, query: ValueQuery, series: Sequence[SeriesExtent], steps: Sequence[int]
) -> list[StoredValue]:
    by_number = {each.series: each for each in series}
    rows = await connection.fetch(
        sql("queries", "summary_items"), list(by_number), _ends(series, query), list(steps)
    )
    if len(rows) > MAX_BODIES:
        hint = f"expected at most {MAX_BODIES:,}: ask for fewer steps"
        raise SummaryReadRefused("too_many_values", "limit", f"{len(rows):,} values", hint)
    found = []
    for row in rows:
        columns = dict(row)
        of = by_number[columns.pop("series")]
        columns["body"] = json.loads(columns["body"])
        found.append(StoredValue(of.job_id, of.attempt, of.tag, query.kind, **columns))
    return found
