"""Publishes commands and follows what became of them, in an event loop.

Publishing is idempotent: publishing a command id twice has the effect of once.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Literal, Self, TypeVar

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.batches import BatchStarted, SubmitTasks
from trackside.contracts.codec import CODEC, command_of
from trackside.contracts.commands import CommandAccepted, CommandRefused, Source
from trackside.contracts.ids import new_id
from trackside.contracts.message import Command, Record
from trackside.contracts.refusals import Problem
from trackside.contracts.searches import Ping, SearchStarted
from trackside.contracts.topics import Topics, partition_of
from trackside.domain import fleet
from trackside.domain.outcome import Outcome
from trackside.domain.stream import Stream
from trackside.domain.streams import Streams
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.errors import TooLargeError, TransientError
from trackside.eventlog.log import Appended, Entry, Log, Outgoing, Reader
from trackside.sdk.errors import RefusedError, UnansweredError, UnreachableError, UnsendableError
from trackside.sdk.publication import Accepted, Pong, Publication, Refused, answered, outgoing, within_limit
from trackside.sdk.signing import Signer

PUBLISH_S = 15.0
ANSWER_S = 30.0
RETRY_S = 0.25
WAIT_S = 1.0

Got = TypeVar("Got")
_ANSWERS = frozenset({CommandAccepted.wire_type(), CommandRefused.wire_type()})


class AsyncClient:
    """Talks to one installation: Kafka's host:port, and the prefix of its topic names.

    Connects on first use; close it, or use it in an `async with`. `log` replaces Kafka in tests.
    """

    def __init__(
        self,
        bootstrap: str,
        topic_prefix: str = "",
        *,
        name: str = "sdk",
        log: Log | None = None,
        signer: Signer | None = None,
    ) -> None:
        self._bootstrap = bootstrap
        self._topics = Topics(prefix=topic_prefix)
        self._source = f"trackside/sdk/{name}"
        self._log = log
        self._signer = signer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Lets go of connections."""
        if self._log is not None:
            await self._log.close()

    async def publish(
        self,
        command: Command | Mapping[str, object],
        stream_id: str,
        command_id: str | None = None,
        traceparent: str | None = None,
        timeout_s: float = PUBLISH_S,
    ) -> Publication:
        """Publishes a command to a stream and waits until it is safe in the log.

        A mapping is sent as a structured CloudEvent with `type` and `data`, for the platform to judge.
        Raises UnsendableError for what could never be accepted, UnreachableError if the log is silent.
        """
        command_id = command_id or new_id()
        record = outgoing(command, stream_id, command_id, self._source, traceparent or "")
        if self._signer is not None:
            record = within_limit(self._signer.signed(record, self._topics.commands.name))
        what = f"command {command_id} was not confirmed; publish it again under this id, it will count once"
        ends = await self._patiently(lambda log: log.ends(self._topics.events.name), timeout_s, what)
        appended = await self._patiently(lambda log: self._append(log, stream_id, record), timeout_s, what)
        commands = self._topics.commands
        return Publication(
            topic=commands.name,
            partition=partition_of(stream_id, commands.partitions),
            offset=appended.offset,
            command_id=command_id,
            stream_id=stream_id,
            events_from=ends[partition_of(stream_id, len(ends))],
            time_ms=appended.append_time_ms,
        )

    async def answer(self, publication: Publication, timeout_s: float = ANSWER_S) -> Accepted | Refused:
        """Waits for the answer to one publication; raises UnansweredError after `timeout_s`."""
        place = (
            self._topics.events.name,
            partition_of(publication.stream_id, self._topics.event_partitions),
        )
        try:
            async with asyncio.timeout(timeout_s):
                async with aclosing(self._entries({place: publication.events_from})) as entries:
                    async for entry in entries:
                        record = _of_stream(entry, publication.stream_id)
                        found = None if record is None else answered(publication, record)
                        if found is not None:
                            return found
        except TimeoutError as error:
            source = publication.source
            raise UnansweredError(
                f"command {publication.command_id} is in the log ({source.topic}-{source.partition} "
                f"offset {source.offset}), but it was not answered within {timeout_s:g} s; "
                "is a dispatcher running?"
            ) from error
        raise AssertionError("a log has no end")

    async def submit_tasks(
        self, batch: SubmitTasks | Mapping[str, object], batch_id: str = "", timeout_s: float = ANSWER_S
    ) -> str:
        """Submits tasks in groups, waits until they are accepted, and returns the id of the batch.

        A mapping has the fields of SubmitTasks. Follow the batch with `wait` or `follow`. Raises
        UnsendableError for what can't be right, RefusedError for what the platform doesn't have, and what
        `publish` and `answer` raise.
        """
        wanted = batch if isinstance(batch, SubmitTasks) else _read(batch)
        return (await self.send(wanted, batch_id or new_id("tasks"), timeout_s)).stream_id

    async def send(
        self, command: Command | Mapping[str, object], stream_id: str, timeout_s: float = ANSWER_S
    ) -> Publication:
        """Publishes a command, such as PauseSearch() or UpdateSearch(concurrency=8), until it is accepted.

        Raises RefusedError if it is refused, and what `publish` and `answer` raise.
        """
        publication = await self.publish(command, stream_id)
        _raise_refused(publication, await self.answer(publication, timeout_s))
        return publication

    async def ping(self, stream_id: str = "ping", timeout_s: float = ANSWER_S) -> Pong:
        """Asks the dispatcher of a stream for an answer and says what it took; raises as `send` does."""
        began_s = monotonic_s()
        publication = await self.publish(Ping(), stream_id)
        published_s = monotonic_s()
        answer = await self.answer(publication, timeout_s)
        whole_ms = (monotonic_s() - began_s) * 1000
        _raise_refused(publication, answer)
        assert isinstance(answer, Accepted)
        published_ms = (published_s - began_s) * 1000
        return Pong(answer.source, published_ms, answer.time_ms - publication.time_ms, whole_ms)

    async def root(self, stream_id: str) -> Literal["search", "batch"] | None:
        """Returns what a stream is, from its first events; None for one that is nothing yet."""
        async with aclosing(self.events(stream_id)) as records:
            async for record in records:
                if isinstance(record.message, SearchStarted):
                    return "search"
                if isinstance(record.message, BatchStarted):
                    return "batch"
        return None

    async def answers(
        self, publications: Sequence[Publication], timeout_s: float = ANSWER_S
    ) -> AsyncGenerator[tuple[Publication, Accepted | Refused], None]:
        """Returns the answers to publications as they come; ends with the last, or `timeout_s` after one."""
        waiting = {publication.source: publication for publication in publications}
        topic, starts = self._topics.events, dict[tuple[str, int], int]()
        for publication in publications:
            place = (topic.name, partition_of(publication.stream_id, self._topics.event_partitions))
            starts[place] = min(publication.events_from, starts.get(place, publication.events_from))
        deadline = monotonic_s() + timeout_s

        def over() -> bool:
            return not waiting or monotonic_s() >= deadline

        async with aclosing(self._entries(starts, over)) as entries:
            async for entry in entries:
                found = _answer(entry, waiting)
                if found is None:
                    continue
                del waiting[found[0].source]
                yield found
                deadline = monotonic_s() + timeout_s

    async def events(
        self, stream_id: str, follow: bool = False, from_offset: int = 0
    ) -> AsyncGenerator[Record, None]:
        """Returns the records of a stream in log order from an offset on; with `follow` also those to come.

        Raises UnknownMessageError for a record that only a newer release understands.
        """
        topic = self._topics.events.name
        ends = await self._patiently(lambda log: log.ends(topic), PUBLISH_S, f"events of {stream_id}")
        place = (topic, partition_of(stream_id, len(ends)))
        starts = await self._patiently(lambda log: log.beginnings(topic), PUBLISH_S, f"events of {stream_id}")
        start, end = max(from_offset, starts[place[1]]), ends[place[1]]
        if not follow and start >= end:
            return
        async with aclosing(self._entries({place: start})) as entries:
            async for entry in entries:
                if not follow and entry.offset >= end:
                    return
                record = _of_stream(entry, stream_id)
                if record is not None:
                    yield record
                if not follow and entry.offset + 1 >= end:
                    return

    async def follow(self, stream_id: str) -> AsyncGenerator[tuple[Record, Stream], None]:
        """Returns each event that counts, with the state it led to, until the stream's root is over.

        The state is one object that goes on changing.
        """
        streams = Streams(AGGREGATES)
        async with aclosing(self.events(stream_id, follow=True)) as records:
            async for record in records:
                stream, outcome = streams.fold(record)
                if outcome is Outcome.APPLIED:
                    yield record, stream
                    if stream.closed:
                        return

    async def wait(self, stream_id: str, timeout_s: float | None = None) -> Stream:
        """Waits until the root of a stream is over and returns its state; raises TimeoutError."""
        async with asyncio.timeout(timeout_s):
            async with aclosing(self.follow(stream_id)) as changes:
                async for _, stream in changes:
                    if stream.closed:
                        return stream
        raise AssertionError("a log has no end")

    async def state(self, stream_id: str) -> Stream | None:
        """Returns the state of a stream as the log has it now, or None if there is no such stream."""
        streams = Streams(AGGREGATES)
        async with aclosing(self.events(stream_id)) as records:
            async for record in records:
                streams.fold(record)
        return streams.by_id.get(stream_id)

    async def fleet(self) -> fleet.Fleet:
        """Returns the workers and devices as the log has them now."""
        folded, topic = fleet.Fleet(), self._topics.fleet.name
        ends = await self._patiently(lambda log: log.ends(topic), PUBLISH_S, "the fleet")
        starts = await self._patiently(lambda log: log.beginnings(topic), PUBLISH_S, "the fleet")
        if starts[0] >= ends[0]:
            return folded
        async with aclosing(self._entries({(topic, 0): starts[0]})) as entries:
            async for entry in entries:
                if entry.offset < ends[0]:
                    fleet.evolve(folded, _record(entry))
                if entry.offset + 1 >= ends[0]:
                    break
        return folded

    async def _append(self, log: Log, stream_id: str, record: Outgoing) -> Appended:
        commands = self._topics.commands
        place = (commands.name, partition_of(stream_id, commands.partitions))
        try:
            # alone in its batch: the broker's limit is on batches, and several commands might be over it
            return await log.append(*place, [record])
        except TooLargeError as error:
            raise UnsendableError(Problem(code="too_large", message=str(error))) from error

    async def _patiently(self, ask: Callable[[Log], Awaitable[Got]], timeout_s: float, what: str) -> Got:
        """Asks the log until it answers; a command asked twice still counts once."""
        deadline = monotonic_s() + timeout_s
        while True:
            try:
                async with asyncio.timeout(max(0.0, deadline - monotonic_s())):
                    return await ask(self._connected())
            except (TransientError, TimeoutError) as error:
                if monotonic_s() + RETRY_S >= deadline:
                    reason = str(error) or "no answer"
                    raise UnreachableError(
                        f"no Kafka at {self._bootstrap} within {timeout_s:g} s ({reason}): {what}"
                    ) from error
            await asyncio.sleep(RETRY_S)

    def _connected(self) -> Log:
        if self._log is None:
            # imported late: task processes import this package too, and never speak to Kafka themselves
            from trackside.eventlog.kafka import KafkaLog

            self._log = KafkaLog(self._bootstrap, client_id="trackside-sdk")
        return self._log

    async def _entries(
        self, starts: dict[tuple[str, int], int], over: Callable[[], bool] = lambda: False
    ) -> AsyncGenerator[Entry, None]:
        reader: Reader = self._connected().reader(starts)
        try:
            while not over():
                for entry in await reader.read(WAIT_S):
                    yield entry
        finally:
            await reader.close()


def _raise_refused(publication: Publication, answer: Accepted | Refused) -> None:
    if isinstance(answer, Refused):
        problem = Problem(code=answer.code, path=answer.path, message=answer.message)
        raise RefusedError(publication.stream_id, problem)


def _read(fields: Mapping[str, object]) -> SubmitTasks:
    found = command_of(SubmitTasks.wire_type(), dict(fields), (SubmitTasks,))
    if isinstance(found, Problem):
        raise UnsendableError(found)
    assert isinstance(found, SubmitTasks)
    return found


def _answer(
    entry: Entry, waiting: Mapping[Source, Publication]
) -> tuple[Publication, Accepted | Refused] | None:
    """Returns an entry as the answer to one of these publications, if it is that."""
    if CODEC.envelope(entry.headers).type not in _ANSWERS:
        return None
    record = _record(entry)
    message = record.message
    if not isinstance(message, CommandAccepted | CommandRefused) or message.source not in waiting:
        return None
    publication = waiting[message.source]
    found = answered(publication, record)
    return None if found is None else (publication, found)


def _of_stream(entry: Entry, stream_id: str) -> Record | None:
    """Decodes an entry if it belongs to the stream; the others are passed over by their headers alone."""
    envelope = CODEC.envelope(entry.headers)
    if envelope.stream != stream_id:
        return None
    return _record(entry)


def _record(entry: Entry) -> Record:
    envelope = CODEC.envelope(entry.headers)
    message = CODEC.decode(envelope, entry.value)
    return Record(entry.topic, entry.partition, entry.offset, entry.append_time_ms, envelope, message)
