"""The attributes of spans that send records to Kafka or process them, as OpenTelemetry names them."""

from typing import Final

SYSTEM: Final = {"messaging.system": "kafka"}


def sent(
    topic: str, partition: int, *, key: str, message_id: str, offset: int | None = None, count: int = 1
) -> dict[str, str | int]:
    """Returns the attributes of a span of kind producer; `offset` is that of the first of `count` records."""
    found = {**_of("send", topic, partition), "messaging.message.id": message_id}
    if key:
        found["messaging.kafka.message.key"] = key
    if offset is not None:
        found["messaging.kafka.offset"] = offset
    if count > 1:
        found["messaging.batch.message_count"] = count
    return found


def processed(topic: str, partition: int, offset: int | None = None) -> dict[str, str | int]:
    """Returns the attributes of a span of kind consumer."""
    found = _of("process", topic, partition)
    return found if offset is None else {**found, "messaging.kafka.offset": offset}


def _of(operation: str, topic: str, partition: int) -> dict[str, str | int]:
    return {
        **SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": str(partition),
    }
