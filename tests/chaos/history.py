"""What the log says while it grows, and waiting for it to say something."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.state import Search, search_of
from trackside.contracts.message import Message, Record
from trackside.contracts.topics import Topics
from trackside.domain import fleet
from trackside.domain.outcome import Outcome
from trackside.domain.streams import Streams
from trackside.domain.task import Task, TaskState
from trackside.eventlog.decode import decode
from trackside.eventlog.log import Log

Got = TypeVar("Got")
Said = TypeVar("Said", bound=Message)
PATIENCE_S = 120.0
"""How long anything may take before the test says that it never came; no check depends on it."""


@dataclass(frozen=True, slots=True)
class Line:
    """A record of the events or fleet topic, and whether it counted."""

    record: Record
    outcome: Outcome

    @property
    def writer(self) -> str:
        """Who wrote it: role and instance."""
        return self.record.envelope.source.removeprefix("trackside/")

    def __str__(self) -> str:
        place = f"{self.record.partition}@{self.record.offset}"
        return f"{place} {self.writer} {self.outcome.value} {self.record.message!r}"


class History:
    """All lines of events and fleet in the order read, with the state they lead to."""

    def __init__(self, log: Log, topics: Topics, search_id: str) -> None:
        self.lines: list[Line] = []
        self.streams = Streams(AGGREGATES)
        self.fleet = fleet.Fleet()
        self._log = log
        self._topics = topics
        self._search_id = search_id
        self._grown = asyncio.Condition()

    @property
    def search(self) -> Search | None:
        """The search, once it has started."""
        stream = self.streams.by_id.get(self._search_id)
        return None if stream is None else search_of(stream)

    @property
    def tasks(self) -> dict[str, Task]:
        """The tasks of the search by id."""
        stream = self.streams.by_id.get(self._search_id)
        return {} if stream is None else stream.tasks

    @property
    def in_flight(self) -> list[Task]:
        """The tasks whose attempt has been accepted and has not ended."""
        return [task for task in self.tasks.values() if task.state is TaskState.ACTIVE]

    @property
    def mark(self) -> int:
        """Where the history ends now."""
        return len(self.lines)

    async def follow(self) -> None:
        """Reads for ever."""
        starts = {(self._topics.fleet.name, 0): 0}
        starts |= {(self._topics.events.name, at): 0 for at in range(self._topics.event_partitions)}
        reader = self._log.reader(starts)
        try:
            while True:
                entries = await reader.read(1.0)
                async with self._grown:
                    for entry in entries:
                        if (record := decode(entry)) is not None:
                            self._take(record)
                    self._grown.notify_all()
        finally:
            await reader.close()

    def _take(self, record: Record) -> None:
        if record.topic == self._topics.fleet.name:
            outcome = fleet.evolve(self.fleet, record)
        else:
            _, outcome = self.streams.fold(record)
        self.lines.append(Line(record, outcome))

    async def until(self, what: str, found: Callable[[], Got | None]) -> Got:
        """Waits until the log makes `found` give something; AssertionError says what never came."""
        try:
            async with asyncio.timeout(PATIENCE_S), self._grown:
                while not (got := found()):
                    await self._grown.wait()
                return got
        except TimeoutError:
            last = "\n".join(str(line)[:300] for line in self.lines[-25:])
            raise AssertionError(f"the log never said: {what}; its last lines:\n{last}") from None

    async def next(
        self, kind: type[Said], mark: int, fits: Callable[[Said, Line], bool] = lambda message, line: True
    ) -> Line:
        """Waits for the first event of a kind that counts, behind a mark."""

        def found() -> Line | None:
            for line in self.lines[mark:]:
                message = line.record.message
                if isinstance(message, kind) and line.outcome is Outcome.APPLIED and fits(message, line):
                    return line
            return None

        return await self.until(f"a fitting {kind.__name__}", found)

    async def more(self, mark: int, count: int) -> None:
        """Waits until `count` lines lie behind a mark."""
        await self.until(f"{count} more events", lambda: len(self.lines) >= mark + count)

    def applied(self, kind: type[Said]) -> Iterator[Said]:
        """Gives the events of a kind that counted."""
        for line in self.lines:
            if isinstance(line.record.message, kind) and line.outcome is Outcome.APPLIED:
                yield line.record.message
