"""Pages of the events of a stream, the newest first, without folding it: the log names their causes."""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass

from trackside.contracts.message import Event, Record
from trackside.contracts.topics import Topics
from trackside.domain.proposal import parse_cause
from trackside.eventlog.decode import decode
from trackside.eventlog.log import Log
from trackside.replay.causality.event_text import brief
from trackside.replay.history.recorded_stream import has_value, read_entries

EVENTS = 200
FIRST_WINDOW = 1_000
"""How many records of the partition are read at first; ten times as many if they have too few events."""


@dataclass(frozen=True, slots=True)
class ListedEvent:
    """An event in a list: its offset, append time, type, content, writer, and the event that it follows.

    `follows` is the offset of its cause if that is in the stream, else -1; `depth` how many causes it has
    within the page.
    """

    offset: int
    time_ms: int
    type: str
    text: str
    writer: str
    follows: int
    cause: str
    depth: int


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events of a stream, the newest first; `before` is where the page before it ends, or None."""

    events: Sequence[ListedEvent]
    before: int | None


async def read_events(
    log: Log, topics: Topics, partition: int, first: int, stream_id: str, before: int | None, limit: int
) -> EventPage:
    """Returns the last events of a stream whose offsets are below `before`; `first` is that of its first one.

    Raises SilentLogError, and UnknownMessageError for a record that only a newer release understands.
    """
    topic = topics.events.name
    end = (await log.ends(topic))[partition]
    end = end if before is None else min(end, before)
    window, start, found = FIRST_WINDOW, end, list[Record]()
    name = stream_id.encode()
    while start > first and len(found) < limit:
        begin = max(first, start - window)
        earlier = list[Record]()
        async with aclosing(read_entries(log, (topic, partition), begin, start)) as batches:
            async for batch in batches:
                for entry in batch:
                    record = decode(entry) if has_value(entry, name) else None
                    if record is not None and record.envelope.stream == stream_id:
                        earlier.append(record)
        found, start, window = [*earlier, *found], begin, window * 10
    shown = found[-limit:]
    has_more = start > first or len(found) > limit
    return EventPage(_listed(shown, stream_id)[::-1], shown[0].offset if has_more and shown else None)


def _listed(records: Sequence[Record], stream_id: str) -> list[ListedEvent]:
    depths: dict[int, int] = {}
    listed = []
    for record in records:
        cause = record.envelope.causation_id
        place = parse_cause(cause) if cause else None
        follows = place[1] if place is not None and place[0] == stream_id else -1
        depth = depths[record.offset] = depths[follows] + 1 if follows in depths else 0
        event = record.message
        listed.append(
            ListedEvent(
                offset=record.offset,
                time_ms=record.append_time_ms,
                type=type(event).__name__,
                text=brief(event) if isinstance(event, Event) else "",
                writer=f"{record.envelope.role}/{record.envelope.source.rpartition('/')[2]}",
                follows=follows,
                cause="" if follows >= 0 else cause,
                depth=depth,
            )
        )
    return listed
