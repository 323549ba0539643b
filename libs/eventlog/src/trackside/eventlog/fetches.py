"""Fetch requests and answers of Kafka, version 11, as bytes: what a reader says and hears at every turn.

The client packs and unpacks every field of every partition by itself, also of those in which nothing is new.
In a reader of 20 partitions that was a fifth of the processor time of a turn, the append before it included.
Here each partition is one call. Layout: https://kafka.apache.org/protocol, Fetch Request and Response.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Any

_HEAD = struct.Struct(">iiiibii")
_COUNT = struct.Struct(">i")
_LENGTH = struct.Struct(">h")
_ASKED = struct.Struct(">iiqqi")
_ANSWER = struct.Struct(">ihii")
_PART = struct.Struct(">ihqqqi")
_PAIR = struct.Struct(">qq")
_TAIL = struct.Struct(">ii")

REQUEST_FIELDS = (
    *("replica_id", "max_wait_time", "min_bytes", "max_bytes", "isolation_level", "session_id"),
    *("session_epoch", "topics", "forgotten_topics_data", "rack_id"),
)
ANSWER_FIELDS = ("throttle_time_ms", "error_code", "session_id", "topics")

AskedTopic = tuple[str, Sequence[tuple[int, int, int, int, int]]]
"""A topic with (partition, leader epoch, offset, log start offset, most bytes) of each partition."""
AnsweredPartition = tuple[int, int, int, int, int, list[tuple[int, int]] | None, int, bytes | None]
"""Partition, error code, high watermark, last stable offset, log start offset, aborted, replica, records."""


def take_over(request: Any, answer: Any) -> None:
    """Lets the client's classes of a request and its answer, of version 11, use what is here.

    It leaves them as they are if they have other fields than these.
    """
    if request.SCHEMA.names != REQUEST_FIELDS or answer.SCHEMA.names != ANSWER_FIELDS:
        return
    by_schema = request.encode

    def encode(asked: Any) -> bytes:
        fields = [asked.__dict__[name] for name in REQUEST_FIELDS]
        return by_schema(asked) if fields[8] else encoded(fields[:7], fields[7], fields[9])

    def decode(kind: Any, octets: Any) -> Any:
        return kind(*decoded(octets if isinstance(octets, bytes) else octets.read()))

    request.encode, answer.decode = encode, classmethod(decode)


def encoded(head: Sequence[int], topics: Iterable[AskedTopic], rack_id: str) -> bytes:
    """Writes a request; `head` are replica, wait, least and most bytes, isolation, session, epoch."""
    asked = list(topics)
    parts = [_HEAD.pack(*head), _COUNT.pack(len(asked))]
    for topic, partitions in asked:
        parts += (_text(topic), _COUNT.pack(len(partitions)))
        parts += [_ASKED.pack(*partition) for partition in partitions]
    parts += (_COUNT.pack(0), _text(rack_id))
    return b"".join(parts)


def decoded(octets: bytes) -> tuple[int, int, int, list[tuple[str, list[AnsweredPartition]]]]:
    """Reads an answer: throttle time in ms, error code, session, topics. Raises ValueError if it is cut."""
    try:
        throttle_ms, code, session, count = _ANSWER.unpack_from(octets)
        at, topics = _ANSWER.size, []
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(octets, at)
            at += 2 + length
            (many,) = _COUNT.unpack_from(octets, at)
            name = octets[at - length : at].decode()
            at += 4
            partitions = list[AnsweredPartition]()
            for _ in range(many):
                partition, at = _partition(octets, at)
                partitions.append(partition)
            topics.append((name, partitions))
    except struct.error as error:
        raise ValueError(f"an answer to a fetch is cut at {len(octets)} bytes: {error}") from error
    return throttle_ms, code, session, topics


def _partition(octets: bytes, at: int) -> tuple[AnsweredPartition, int]:
    number, code, high, stable, first, count = _PART.unpack_from(octets, at)
    at += _PART.size
    aborted: list[tuple[int, int]] | None = None if count < 0 else []
    if aborted is not None and count:
        end = at + count * _PAIR.size
        aborted = [_PAIR.unpack_from(octets, place) for place in range(at, end, _PAIR.size)]
        at = end
    replica, length = _TAIL.unpack_from(octets, at)
    at += _TAIL.size
    if length < 0:
        return (number, code, high, stable, first, aborted, replica, None), at
    end = at + length
    if end > len(octets):
        raise ValueError(f"an answer to a fetch is cut at {len(octets)} bytes, of {end} or more")
    return (number, code, high, stable, first, aborted, replica, octets[at:end]), end


def _text(text: str) -> bytes:
    octets = text.encode()
    return _LENGTH.pack(len(octets)) + octets
