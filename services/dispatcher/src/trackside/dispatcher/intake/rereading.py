"""Reads again what the intake has passed over, once it has space, with a reader of its own."""

import asyncio
from collections.abc import Callable

from trackside.contracts.envelope.topics import Topic
from trackside.dispatcher.intake.intake import Intake
from trackside.eventlog.log import Entry, Log, Reader

READ_S = 1.0
"""How long one read waits for records, in s."""
MOST_READ = 1_000
"""How many records are read at once."""


class Rereading:
    """The commands topic, read a second time as far as commands were passed over."""

    def __init__(self, log: Log, topic: Topic, intake: Intake, receive: Callable[[Entry], None]) -> None:
        self._log = log
        self._topic = topic.name
        self._intake = intake
        self._receive = receive
        self._wanted = asyncio.Event()

    def update(self) -> None:
        """Begins to read if there is something to read, and space for it."""
        if self._intake.rereads:
            self._wanted.set()

    async def run(self, wake: Callable[[], None]) -> None:
        """Reads whenever it is wanted, for as long as the service runs; calls `wake` after each read."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            starts = self._intake.begin_rereading()
            reader = self._log.reader({(self._topic, at): offset for at, offset in starts.items()})
            try:
                await self._read(reader, dict(starts), wake)
            finally:
                await reader.close()

    async def _read(self, reader: Reader, positions: dict[int, int], wake: Callable[[], None]) -> None:
        """Reads to the last command that was passed over, or until there is no space for more."""
        ends = self._intake.passed_over.ends
        while not self._intake.is_stalled and any(at < ends[each] for each, at in positions.items()):
            for entry in await reader.read(READ_S, MOST_READ):
                positions[entry.partition] = entry.offset + 1
                self._receive(entry)
            wake()
