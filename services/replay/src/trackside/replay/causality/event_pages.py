"""Pages of the events of a stream, the newest first, without folding it: the log names their causes."""

from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from trackside.contracts.envelope.message import Event, Record
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.streams.commands import CommandReceived
from trackside.domain.proposal import parse_cause
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.log import Log
from trackside.replay.causality.event_text import brief
from trackside.replay.causality.standings import KnownStandings
from trackside.replay.history.recorded_stream import has_value, read_entries

EVENTS = 200
FIRST_WINDOW = 1_000
"""How many records of the partition are read at first; ten times as many if they have too few events."""
MOST_CAUSES = 300
"""How many events of the chain from a command to an event are read: the last ones."""
CAUSE_WINDOWS = 30
"""How many windows of records are read for such a chain."""


@dataclass(frozen=True, slots=True)
class ListedEvent:
    """An event in a list: its offset, append time, type, content, writer, and the event that it follows.

    `follows` is the offset of its cause if that is in the stream, else -1; `depth` how many causes it has
    within the page. `cause_stream` and `cause_offset` are the place of a cause in another stream, empty if
    there is none; `cause` is any cause that is no event of the stream as text, of a command its publisher.
    `no_effect` says why it had none, empty if it had one.
    """

    offset: int
    time_ms: int
    type: str
    text: str
    writer: str
    follows: int
    cause: str
    depth: int
    cause_stream: str = ""
    cause_offset: int = -1
    no_effect: str = ""


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events of a stream, the newest first; `before` is where the page before it ends, or None.

    Of those in `unknown` it is not known whether they had an effect.
    """

    events: Sequence[ListedEvent]
    before: int | None
    unknown: Sequence[int] = ()

    def marked(self, known: KnownStandings) -> "EventPage":
        """Returns the page with what is known of its events."""
        events = [replace(each, no_effect=known.without_effect.get(each.offset, "")) for each in self.events]
        unknown = [each.offset for each in events if not known.since <= each.offset < known.until]
        return EventPage(events, self.before, unknown)


@dataclass(frozen=True, slots=True)
class EventSource:
    """Where the events of a stream are: a partition of the log, from the offset `first` on."""

    log: Log
    topics: Topics
    partition: int
    first: int
    stream_id: str

    async def end(self) -> int:
        """Returns the offset after the last record of the partition."""
        return (await self.log.ends(self.topics.events.name))[self.partition]

    async def records(self, begin: int, end: int) -> list[Record]:
        """Returns the stream's events from `begin` up to `end`; raises what `read_events` raises."""
        found, name = list[Record](), self.stream_id.encode()
        place = (self.topics.events.name, self.partition)
        async with aclosing(read_entries(self.log, place, max(self.first, begin), end)) as batches:
            async for batch in batches:
                for entry in batch:
                    record = decode(entry) if has_value(entry, name) else None
                    if record is not None and record.envelope.stream == self.stream_id:
                        found.append(record)
        return found


async def read_events(source: EventSource, before: int | None, limit: int) -> EventPage:
    """Returns the last events of a stream whose offsets are below `before`.

    Raises SilentLogError.
    """
    end = await source.end()
    end = end if before is None else min(end, before)
    window, start, found = FIRST_WINDOW, end, list[Record]()
    while start > source.first and len(found) < limit:
        begin = max(source.first, start - window)
        found = [*await source.records(begin, start), *found]
        start, window = begin, window * 10
    shown = found[-limit:]
    has_more = start > source.first or len(found) > limit
    return EventPage(_listed(shown, source.stream_id)[::-1], shown[0].offset if has_more and shown else None)


async def read_event_with_causes(source: EventSource, offset: int, limit: int) -> list[ListedEvent]:
    """Returns an event, its causes back to a command, and what it caused, in the order of the log.

    Of its causes these are the last MOST_CAUSES; what it caused is looked for in the records after it, until
    `limit` events of the stream were read. No events: there is none at this offset. Raises what `read_events`
    raises.
    """
    end = await source.end()
    if not source.first <= offset < end:
        return []
    causes = await _causes(source, offset)
    if not causes:
        return []
    later, begin = list[Record](), offset + 1
    while begin < end and len(later) < limit:
        later += await source.records(begin, min(end, begin + FIRST_WINDOW))
        begin += FIRST_WINDOW
    caused, known = list[Record](), {offset}
    for record in later[:limit]:
        if _follows(record, source.stream_id) in known:
            known.add(record.offset)
            caused.append(record)
    return _listed([*causes, *caused], source.stream_id)


async def _causes(source: EventSource, offset: int) -> list[Record]:
    """Returns an event and the chain of its causes, the first cause first, from windows of records."""
    known: dict[int, Record] = {}
    chain, wanted, windows = list[Record](), offset, 0
    while wanted >= source.first and len(chain) <= MOST_CAUSES:
        if wanted not in known:
            if windows == CAUSE_WINDOWS:
                break
            windows += 1
            found = await source.records(wanted + 1 - FIRST_WINDOW, wanted + 1)
            known = {record.offset: record for record in found}
            if wanted not in known:
                break
        chain.append(known[wanted])
        follows = _follows(known[wanted], source.stream_id)
        if follows >= wanted:
            break
        wanted = follows
    return chain[::-1]


def _follows(record: Record, stream_id: str) -> int:
    """Returns the offset of the event of the same stream that one follows, -1 if there is none."""
    place = parse_cause(record.envelope.causation_id or "")
    return place[1] if place is not None and place[0] == stream_id else -1


def _listed(records: Iterable[Record], stream_id: str) -> list[ListedEvent]:
    depths: dict[int, int] = {}
    listed = []
    for record in records:
        cause, event = record.envelope.causation_id or "", record.message
        place, follows = parse_cause(cause), _follows(record, stream_id)
        depth = depths[record.offset] = depths[follows] + 1 if follows in depths else 0
        if isinstance(event, CommandReceived) and not cause:
            cause = f"published by {event.publisher or 'a publisher without a name'}"
        elsewhere = place if place is not None and follows < 0 else ("", -1)
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
                cause_stream=elsewhere[0],
                cause_offset=elsewhere[1],
            )
        )
    return listed
