"""What becomes of a record that can't be indexed: a dead letter that says where it is and why. Pure."""

import base64
import hashlib

from trackside.contracts.codec import CODEC, UndecodableError
from trackside.contracts.commands import RecordDeadLettered, Source
from trackside.contracts.summaries import MetricPointsReported
from trackside.eventlog.log import Entry

READER = "summary-indexer"
HEAD_BYTES = 4_096
MESSAGE_CHARACTERS = 1_000


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


def letter_of(entry: Entry, error: UndecodableError) -> RecordDeadLettered:
    """Describes a record that was passed over, with its first 4 KiB."""
    value = entry.value or b""
    return RecordDeadLettered(
        source=Source(topic=entry.topic, partition=entry.partition, offset=entry.offset),
        code=error.code,
        message=str(error)[:MESSAGE_CHARACTERS],
        reader=READER,
        sha256=hashlib.sha256(value).hexdigest(),
        head_base64=base64.b64encode(value[:HEAD_BYTES]).decode(),
    )
