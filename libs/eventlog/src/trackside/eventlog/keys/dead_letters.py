"""Dead letters: records that a reader can't decode are described in a topic of their own."""

import base64
import hashlib
from functools import partial

import structlog

from trackside.contracts.envelope.redaction import has_secret, redact
from trackside.contracts.envelope.topics import Topic
from trackside.contracts.streams.commands import RecordDeadLettered, Source
from trackside.contracts.wire.codec import UndecodableError
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Entry, Log
from trackside.eventlog.retry import retry_until_reachable
from trackside.telemetry.metrics import counter

log = structlog.get_logger("trackside.eventlog")

HEAD_BYTES = 4_096
MESSAGE_CHARACTERS = 1_000


def position_of(entry: Entry) -> Source:
    """Returns the position of an entry."""
    return Source(topic=entry.topic, partition=entry.partition, offset=entry.offset)


def position_id(source: Source) -> str:
    """Returns the id `topic-partition-offset`: always the same, so a repeated message counts once."""
    return f"{source.topic}-{source.partition}-{source.offset}"


def dead_letter(entry: Entry, error: UndecodableError, reader: str) -> RecordDeadLettered:
    """Describes a record that was skipped, with its first 4 KiB, unless it may have a secret anywhere."""
    value = entry.value or b""
    head, message = value[:HEAD_BYTES], redact(str(error))[:MESSAGE_CHARACTERS]
    if has_secret(value.decode("utf-8", "replace")):
        head, message = b"", f"{message}; its bytes look like a secret and are not kept"
    return RecordDeadLettered(
        source=position_of(entry),
        code=error.code,
        message=message,
        reader=reader,
        sha256=hashlib.sha256(value).hexdigest(),
        head_base64=base64.b64encode(head).decode(),
    )


async def write_dead_letter(to: Log, topic: Topic, writer: RecordWriter, letter: RecordDeadLettered) -> None:
    """Appends a dead letter; retries until the log has it."""
    key = position_id(letter.source)
    counter("trackside.eventlog.dead_letters.records").labels(letter.source.topic, letter.code).inc()
    record = writer.single(key, letter, message_id=key)
    await retry_until_reachable(
        partial(to.publish, topic.name, 0, record),
        lambda reason: log.warning("a dead letter waits for the log", reason=reason),
    )
