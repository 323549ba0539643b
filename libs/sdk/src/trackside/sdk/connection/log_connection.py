"""The connection of a client to the log: made at first use, with requests that are repeated, and readers."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, TypeVar

from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import partition_of
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.errors import DeniedError, TransientError
from trackside.eventlog.keys.encryption import StreamKeys
from trackside.eventlog.keys.noted_keys import NotedKeys
from trackside.eventlog.log import Entry, Log, Reader
from trackside.sdk.connection.records import of_stream
from trackside.sdk.errors import UnreachableError

if TYPE_CHECKING:
    from trackside.eventlog.settings.kafka_settings import KafkaSettings

REQUEST_S = 15.0
RETRY_S = 0.25
WAIT_S = 1.0

T = TypeVar("T")


class LogConnection:
    """Reads topics of one Kafka, and sends requests to it; `log` replaces it in tests."""

    def __init__(self, kafka: "KafkaSettings | str", log: Log | None, keys: StreamKeys | None) -> None:
        self._kafka, self._log, self._stream_keys = kafka, log, keys
        self._noted = NotedKeys()

    async def close(self) -> None:
        """Closes the connection, if it was opened."""
        if self._log is not None:
            await self._log.close()

    async def request(
        self,
        request: Callable[[Log], Awaitable[T]],
        what: str,
        timeout_s: float = REQUEST_S,
        began_s: float | None = None,
    ) -> T:
        """Repeats a request until the log responds, or denies it, for `timeout_s` from `began_s` (now).

        Raises UnreachableError, which names `what` was asked for, and DeniedError.
        """
        deadline = (monotonic_s() if began_s is None else began_s) + timeout_s
        while True:
            try:
                async with asyncio.timeout(max(0.0, deadline - monotonic_s())):
                    return await request(self._connected())
            except DeniedError:
                raise
            except (TransientError, TimeoutError) as error:
                if monotonic_s() + RETRY_S >= deadline:
                    where = f"no Kafka at {self._kafka} within {timeout_s:g} s"
                    raise UnreachableError(f"{where} ({str(error) or 'no response'}): {what}") from error
            await asyncio.sleep(RETRY_S)

    async def records(
        self, topic: str, stream_id: str, follow: bool, first: int = 0
    ) -> AsyncGenerator[Record, None]:
        """Yields the records of a stream from an offset on, with the keys that the log trusts up to each.

        The last one is the newest at the beginning, or with `follow` there is none.
        """
        what = f"events of {stream_id}"
        ends = await self.request(lambda log: log.ends(topic), what)
        partition = partition_of(stream_id, len(ends))
        async with aclosing(
            self.entries_of((topic, partition), ends[partition], follow, first, what)
        ) as entries:
            async for entry in entries:
                record = self._noted.noted(entry, of_stream(entry, stream_id))
                if record is not None:
                    yield record

    async def entries_of(
        self, place: tuple[str, int], end: int, follow: bool, first: int, what: str
    ) -> AsyncGenerator[Entry, None]:
        """Yields the entries of a partition from an offset on, up to `end`, or with `follow` without one."""
        starts = await self.request(lambda log: log.beginnings(place[0]), what)
        start = max(first, starts[place[1]])
        if not follow and start >= end:
            return
        async with aclosing(self.entries({place: start})) as entries:
            async for entry in entries:
                if follow or entry.offset < end:
                    yield entry
                if not follow and entry.offset + 1 >= end:
                    return

    async def entries(
        self, starts: dict[tuple[str, int], int], over: Callable[[], bool] = lambda: False
    ) -> AsyncGenerator[Entry, None]:
        """Yields the entries of partitions from these offsets on, as they come, until it is over."""
        reader: Reader = self._connected().reader(starts)
        try:
            while not over():
                for entry in await reader.read(WAIT_S):
                    yield entry
        finally:
            await reader.close()

    def _connected(self) -> Log:
        if self._log is None:
            # imported late: task processes import this package too, and never connect to Kafka
            from trackside.eventlog.kafka.kafka_log import KafkaLog

            self._log = KafkaLog(self._kafka, client_id="trackside-sdk", keys=self._stream_keys)
        return self._log
