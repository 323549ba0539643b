"""Which records of the metrics topic can be indexed, and why another can't. Pure."""

import re

from trackside.aggregates.registry import CODEC
from trackside.contracts.codec import UndecodableError
from trackside.contracts.summaries import MetricPointsReported
from trackside.eventlog.log import Entry

MAX_TAG = 1_000
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def decode_points(entry: Entry) -> MetricPointsReported:
    """Decodes a batch of points; raises UndecodableError for anything else."""
    message = CODEC.decode(CODEC.envelope(entry.headers), entry.value)
    if not isinstance(message, MetricPointsReported):
        expected = MetricPointsReported.wire_type()
        raise UndecodableError("unexpected_type", f"{message.wire_type()} in {entry.topic}, not {expected}")
    for series in message.series:
        if not 0 < len(series.tag) <= MAX_TAG or _CONTROL.search(series.tag):
            expected = f"expected 1 to {MAX_TAG:,} characters, none of them a control character"
            raise UndecodableError("bad_tag", f"tag {series.tag[:30]!r}: {expected}")
        lengths = {len(series.steps), len(series.times_ms), len(series.values)}
        if len(lengths) > 1:
            raise UndecodableError("not_valid", f"columns of tag {series.tag!r} differ in length")
    return message
