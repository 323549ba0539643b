"""An independent consumer of the log, with the times at which it gets records."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import Topic
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.log import Log, Reader
from trackside.eventlog.retry import retry_until_reachable

AWAY_RETRY_S = 0.02


@dataclass(frozen=True, slots=True)
class SeenRecord:
    """A record, and when it was read, in s of the monotonic clock."""

    record: Record
    at_s: float


@dataclass(slots=True)
class LogWatch:
    """All records that were appended to a topic since the watch began."""

    seen: list[SeenRecord] = field(default_factory=list)
    _moved: asyncio.Event = field(default_factory=asyncio.Event)

    async def until(
        self, fits: Callable[[Record], bool], limit_s: float = 300.0, start: int = 0
    ) -> SeenRecord:
        """Returns the first record from place `start` on that fits; raises TimeoutError after `limit_s`."""
        at = start
        async with asyncio.timeout(limit_s):
            while True:
                while at < len(self.seen):
                    if fits(self.seen[at].record):
                        return self.seen[at]
                    at += 1
                self._moved.clear()
                await self._moved.wait()

    async def read(self, reader: Reader) -> None:
        """Reads until it is cancelled, also after Kafka was away."""
        while True:
            entries = await retry_until_reachable(lambda: reader.read(1.0), lambda _: None, AWAY_RETRY_S)
            at_s = monotonic_s()
            self.seen += [SeenRecord(record, at_s) for record in map(decode, entries) if record is not None]
            self._moved.set()


@asynccontextmanager
async def watch_topic(log: Log, topic: Topic) -> AsyncIterator[LogWatch]:
    """Watches a topic from its end on."""
    ends = await log.ends(topic.name)
    reader = log.reader({(topic.name, partition): end for partition, end in ends.items()})
    watch = LogWatch()
    await reader.read(0.2)  # connected before anything is measured
    reading = asyncio.create_task(watch.read(reader))
    try:
        yield watch
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await reader.close()
