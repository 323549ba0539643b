"""Which records can be indexed, and why another can't. Pure."""

from trackside.contracts.codec import CODEC, UndecodableError
from trackside.contracts.summaries import MetricPointsReported
from trackside.eventlog.log import Entry


def points_of(entry: Entry) -> MetricPointsReported:
    """Reads a batch of points; raises UndecodableError for anything else."""
    message = CODEC.decode(CODEC.envelope(entry.headers), entry.value)
    if not isinstance(message, MetricPointsReported):
        expected = MetricPointsReported.wire_type()
        raise UndecodableError("unexpected_type", f"{message.wire_type()} in {entry.topic}, not {expected}")
    for series in message.series:
        lengths = {len(series.steps), len(series.times_ms), len(series.values)}
        if len(lengths) > 1:
            raise UndecodableError("not_valid", f"columns of tag {series.tag!r} differ in length")
    return message
