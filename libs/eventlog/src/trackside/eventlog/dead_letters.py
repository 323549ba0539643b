"""Dead letters: what can't be decoded is described and kept, whoever read it."""

import base64
import hashlib
from functools import partial

import structlog

from trackside.contracts.codec import UndecodableError
from trackside.contracts.commands import RecordDeadLettered, Source
from trackside.contracts.ingress import looks_secret
from trackside.contracts.topics import Topic
from trackside.eventlog.log import Entry, Log
from trackside.eventlog.record_writer import RecordWriter
from trackside.eventlog.retry import retry_until_reachable
from trackside.telemetry.metrics import counter

log = structlog.get_logger("trackside.eventlog")

HEAD_BYTES = 4_096
MESSAGE_CHARACTERS = 1_000


def source_of(entry: Entry) -> Source:
    """Gives the place of an entry."""
    return Source(topic=entry.topic, partition=entry.partition, offset=entry.offset)


def place_of(source: Source) -> str:
    """Names a place: `topic-partition-offset`, the same each time, so a repeated letter is one letter."""
    return f"{source.topic}-{source.partition}-{source.offset}"


def dead_letter(entry: Entry, error: UndecodableError, reader: str) -> RecordDeadLettered:
    """Describes a record that was passed over, with its first 4 KiB unless they look like a secret."""
    value = entry.value or b""
    head, message = value[:HEAD_BYTES], str(error)[:MESSAGE_CHARACTERS]
    if looks_secret(value.decode("utf-8", "replace")):
        head, message = b"", f"{message}; its bytes look like a secret and are not kept"
    return RecordDeadLettered(
        source=source_of(entry),
        code=error.code,
        message=message,
        reader=reader,
        sha256=hashlib.sha256(value).hexdigest(),
        head_base64=base64.b64encode(head).decode(),
    )


async def bury(into: Log, topic: Topic, writer: RecordWriter, letter: RecordDeadLettered) -> None:
    """Appends a dead letter; tries until the log has it."""
    key = place_of(letter.source)
    counter("trackside.eventlog.dead_letters.records").labels(letter.source.topic, letter.code).inc()
    record = writer.single(key, letter, message_id=key)
    await retry_until_reachable(
        partial(into.publish, topic.name, 0, record),
        lambda reason: log.warning("a dead letter waits for the log", reason=reason),
    )
