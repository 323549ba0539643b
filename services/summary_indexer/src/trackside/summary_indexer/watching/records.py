"""Turns decoded pieces of event files into messages: batches of points, and of other values. Pure."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from trackside.contracts.tasks.summaries import (
    MAX_TAGS,
    MetricPointsReported,
    ReportedItem,
    Series,
    SummaryItemsReported,
)
from trackside.contracts.tasks.tasks import NonFinite
from trackside.summaries.event_files.restarts import MAX_RESTARTS
from trackside.summaries.event_files.values import Columns, Decoded, SummaryItem
from trackside.summary_indexer.validation import is_tag

MAX_POINTS = 4_000
"""Points of one message."""
MAX_BYTES = 224 * 1024
"""Bytes of one message, as estimated before it is encoded."""
SESSIONS_PER_FILE = MAX_RESTARTS + 1
"""How many session numbers each file of a job has: one for each time that one of its tags begins again."""

_POINT_BYTES = 56
_SERIES_BYTES = 80


@dataclass(slots=True)
class TagLimit:
    """The tags of a job that are indexed, and what is left out.

    `bad` and `beyond` count the points and values of tags that are not indexed: those of bad names, and those
    over the limit.
    """

    most: int = MAX_TAGS
    bad: int = 0
    beyond: int = 0
    _known: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, tags: Iterable[tuple[str, str]]) -> "TagLimit":
        """Returns the limit of a job that has these tags already, each a kind and a name."""
        return cls(_known={hash(tag) for tag in tags})

    @property
    def tags(self) -> int:
        """How many tags are indexed."""
        return len(self._known)

    def admits(self, kind: str, tag: str, count: int = 1) -> bool:
        """Returns whether values of a tag are indexed; counts them if they are not."""
        # The hash alone is remembered: tags may be long, and two of 10,000 hardly ever share one of 64 bits.
        key = hash((kind, tag))
        if key in self._known:
            return True
        if not is_tag(tag):
            self.bad += count
            return False
        if len(self._known) >= self.most:
            self.beyond += count
            return False
        self._known.add(key)
        return True


def session_of(file_number: int, restarts: int) -> int:
    """Returns the number of a session in its job; files count from 1, in the order they were found."""
    return SESSIONS_PER_FILE * file_number + restarts


def point_messages(
    job: str, file_number: int, decoded: Decoded, limit: TagLimit
) -> Iterator[MetricPointsReported]:
    """Yields the scalars of a piece, the sessions in their order."""
    by_session: dict[int, list[tuple[str, Columns]]] = {}
    for segment in decoded.segments:
        for tag, columns in segment.scalars.items():
            if limit.admits("scalar", tag, len(columns.steps)):
                for restarts, part in columns.sessions():
                    by_session.setdefault(session_of(file_number, restarts), []).append((tag, part))
    for session in sorted(by_session):
        for batch in _point_batches(by_session[session]):
            yield MetricPointsReported.model_construct(stream=job, task_id=job, attempt=session, series=batch)


def _point_batches(columns: Iterable[tuple[str, Columns]]) -> Iterator[list[Series]]:
    batch: list[Series] = []
    points = size = 0
    for tag, all_points in columns:
        head = _SERIES_BYTES + 2 * len(tag.encode())
        at, count = 0, len(all_points.steps)
        while at < count:
            room = min(MAX_POINTS - points, (MAX_BYTES - size - head) // _POINT_BYTES)
            if room <= 0:
                yield batch
                batch, points, size = [], 0, 0
                continue
            end = min(count, at + room)
            batch.append(_series(tag, all_points, at, end))
            points, size = points + end - at, size + head + (end - at) * _POINT_BYTES
            at = end
    if batch:
        yield batch


def _series(tag: str, columns: Columns, start: int, end: int) -> Series:
    numbers = columns.values[start:end]
    values: list[float | None] = [*numbers]
    non_finite: dict[int, NonFinite] = {}
    if not math.isfinite(sum(numbers)):
        for at, number in enumerate(numbers):
            if not math.isfinite(number):
                values[at] = None
                non_finite[at] = "nan" if math.isnan(number) else "inf" if number > 0 else "-inf"
    # Without validation, which would cost as much as decoding the file: the decoder has these types already.
    return Series.model_construct(
        tag=tag,
        steps=columns.steps[start:end],
        times_ms=columns.times_ms[start:end],
        values=values,
        non_finite=non_finite,
    )


def items_of(decoded: Decoded, limit: TagLimit) -> list[SummaryItem]:
    """Returns the other values of a piece that are indexed."""
    return [
        item for segment in decoded.segments for item in segment.items if limit.admits(item.kind, item.tag)
    ]


def item_messages(job: str, items: Iterable[tuple[int, ReportedItem, int]]) -> Iterator[SummaryItemsReported]:
    """Yields messages of items; each comes with its session and about how many bytes it has as JSON."""
    batch: list[ReportedItem] = []
    current = size = 0
    for session, item, item_bytes in items:
        if batch and (session != current or size + item_bytes > MAX_BYTES):
            yield SummaryItemsReported(stream=job, task_id=job, attempt=current, items=batch)
            batch, size = [], 0
        current = session
        batch.append(item)
        size += item_bytes
    if batch:
        yield SummaryItemsReported(stream=job, task_id=job, attempt=current, items=batch)
