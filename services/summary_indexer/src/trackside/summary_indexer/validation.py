"""Which records of the metrics topic can be indexed, and why another can't. Pure."""

import re

from trackside.aggregates.registry import CODEC
from trackside.contracts.tasks.summaries import (
    MetricPointsReported,
    SummariesPurged,
    SummaryItemsReported,
    SummaryUpdaterFailed,
)
from trackside.contracts.wire.codec import UndecodableError
from trackside.eventlog.log import Entry
from trackside.projections.tables.metrics import Reported

MAX_TAG = 1_000
MAX_KIND = 100
MAX_UPDATER = 200
MAX_ITEM = 2**31 - 1
BODY_POINTS = 100
"""Counts a value that is no number as that many points: a record of them is longer."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def decode_summaries(entry: Entry) -> Reported:
    """Decodes a batch of points or of other values; raises UndecodableError for anything else."""
    message = CODEC.decode(CODEC.envelope(entry.headers), entry.value)
    if isinstance(message, MetricPointsReported):
        for series in message.series:
            _check_tag(series.tag)
            if len({len(series.steps), len(series.times_ms), len(series.values)}) > 1:
                raise UndecodableError("not_valid", f"columns of tag {series.tag!r} differ in length")
    elif isinstance(message, SummaryItemsReported):
        for item in message.items:
            _check_tag(item.tag)
            if not 0 < len(item.kind) <= MAX_KIND or _CONTROL.search(item.kind) or item.kind == "scalar":
                expected = f"expected another one than scalar of at most {MAX_KIND} characters"
                raise UndecodableError(
                    "not_valid", f"kind {item.kind[:30]!r} of tag {item.tag!r}: {expected}"
                )
            if not 0 <= item.index <= MAX_ITEM:
                raise UndecodableError(
                    "not_valid", f"index {item.index} of tag {item.tag!r}: expected 0 or more"
                )
    elif isinstance(message, SummaryUpdaterFailed):
        if len(message.name) > MAX_UPDATER:
            expected = f"expected at most {MAX_UPDATER} characters"
            raise UndecodableError("not_valid", f"name of updater {message.name[:30]!r}: {expected}")
    elif not isinstance(message, SummariesPurged):
        expected = f"{MetricPointsReported.wire_type()} or {SummaryItemsReported.wire_type()}"
        raise UndecodableError("unexpected_type", f"{message.wire_type()} in {entry.topic}, not {expected}")
    return message


def size_of(message: Reported) -> int:
    """Returns how many points a record has; other values count by their size."""
    if isinstance(message, MetricPointsReported):
        return sum(len(series.steps) for series in message.series)
    return BODY_POINTS * len(message.items) if isinstance(message, SummaryItemsReported) else BODY_POINTS


def is_tag(tag: str) -> bool:
    """Returns whether values of a tag are indexed."""
    return 0 < len(tag) <= MAX_TAG and _CONTROL.search(tag) is None


def _check_tag(tag: str) -> None:
    if not is_tag(tag):
        expected = f"expected 1 to {MAX_TAG:,} characters, none of them a control character"
        raise UndecodableError("bad_tag", f"tag {tag[:30]!r}: {expected}")
