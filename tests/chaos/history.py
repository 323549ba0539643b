"""Follows the log, and waits for events in it."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.state import Search, search_of
from trackside.contracts.envelope.message import Message, Record
from trackside.contracts.envelope.topics import Topics
from trackside.domain.fleet import fleet
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.domain.tasks.task import Task, TaskState
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.log import Log

Found = TypeVar("Found")
Kind = TypeVar("Kind", bound=Message)
TIMEOUT_S = 120.0
"""How long any event may take before the test fails; no other check depends on it."""


@dataclass(frozen=True, slots=True)
class FoldedRecord:
    """A record of the events or fleet topic, and the outcome of its fold."""

    record: Record
    outcome: Outcome

    @property
    def writer(self) -> str:
        """Role and instance of its writer."""
        return self.record.envelope.source.removeprefix("trackside/")

    def __str__(self) -> str:
        place = f"{self.record.partition}@{self.record.offset}"
        return f"{place} {self.writer} {self.outcome.value} {self.record.message!r}"


class History:
    """All records of events and fleet in the order read, and the folded state."""

    def __init__(self, log: Log, topics: Topics, search_id: str) -> None:
        self.records: list[FoldedRecord] = []
        self.streams = Streams(AGGREGATES)
        self.fleet = fleet.Fleet()
        self._log = log
        self._topics = topics
        self._search_id = search_id
        self._changed = asyncio.Condition()

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
    def position(self) -> int:
        """The number of records read."""
        return len(self.records)

    async def follow(self) -> None:
        """Reads until cancelled."""
        starts = {(self._topics.fleet.name, 0): 0}
        starts |= {(self._topics.events.name, at): 0 for at in range(self._topics.event_partitions)}
        reader = self._log.reader(starts)
        try:
            while True:
                entries = await reader.read(1.0)
                async with self._changed:
                    for entry in entries:
                        if (record := decode(entry)) is not None:
                            self._fold(record)
                    self._changed.notify_all()
        finally:
            await reader.close()

    def _fold(self, record: Record) -> None:
        if record.topic == self._topics.fleet.name:
            outcome = fleet.evolve(self.fleet, record)
        else:
            _, outcome = self.streams.fold(record)
        self.records.append(FoldedRecord(record, outcome))

    async def until(
        self, what: str, found: Callable[[], Found | None], timeout_s: float = TIMEOUT_S
    ) -> Found:
        """Waits until `found` returns something; AssertionError says what never came."""
        try:
            async with asyncio.timeout(timeout_s), self._changed:
                while not (got := found()):
                    await self._changed.wait()
                return got
        except TimeoutError:
            last = "\n".join(str(entry)[:300] for entry in self.records[-25:])
            raise AssertionError(f"the log never had: {what}; its last records:\n{last}") from None

    async def next(
        self,
        kind: type[Kind],
        position: int,
        fits: Callable[[Kind, FoldedRecord], bool] = lambda *_: True,
    ) -> FoldedRecord:
        """Waits for the first applied event of a kind after a position."""

        def found() -> FoldedRecord | None:
            for entry in self.records[position:]:
                message = entry.record.message
                if isinstance(message, kind) and entry.outcome is Outcome.APPLIED and fits(message, entry):
                    return entry
            return None

        return await self.until(f"a fitting {kind.__name__}", found)

    async def until_more(self, position: int, count: int) -> None:
        """Waits until `count` records follow a position."""
        await self.until(f"{count} more events", lambda: len(self.records) >= position + count)

    def applied(self, kind: type[Kind]) -> Iterator[Kind]:
        """Returns the applied events of a kind."""
        for entry in self.records:
            if isinstance(entry.record.message, kind) and entry.outcome is Outcome.APPLIED:
                yield entry.record.message
