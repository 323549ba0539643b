"""What any client does: publishes commands, awaits answers, reads and follows streams.

Publishing is idempotent: publishing a command id twice has the effect of once.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from trackside.aggregates.model.messages import AddModelVersion
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Command, Record
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.streams.commands import Ping
from trackside.domain.fleet import fleet
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome, standing_of
from trackside.domain.streams.stream import Stream
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.errors import TooLargeError
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.keys.encryption import StreamKeys
from trackside.eventlog.log import Appended, Log, Outgoing
from trackside.sdk.connection.answer_keys import AnswerKeys, IgnoredAnswers
from trackside.sdk.connection.log_connection import REQUEST_S, LogConnection
from trackside.sdk.connection.model_versions import version_of, wanted_artifact
from trackside.sdk.connection.publication import (
    Accepted,
    Pong,
    PublishedCommand,
    Refused,
    answer_in,
    check_size,
    command_record,
    raise_if_refused,
    span_of_publication,
)
from trackside.sdk.connection.records import answering, check_readable, folded, not_forged
from trackside.sdk.connection.signing import Signer
from trackside.sdk.errors import NotOverError, UnansweredError, UnsendableError
from trackside.telemetry import messaging
from trackside.telemetry.setup import trace_client

if TYPE_CHECKING:
    from trackside.eventlog.settings.kafka_settings import KafkaSettings

ANSWER_S = 30.0


class LogClient:
    """Talks to one installation: Kafka's host:port, and the prefix of its topic names.

    Connects on first use; close it, or use it in an `async with`. `log` replaces Kafka in tests. Streams
    that it begins are `encrypted` if it says so; it reads encrypted streams with `keys`.
    """

    def __init__(
        self,
        bootstrap: "KafkaSettings | str",
        topic_prefix: str = "",
        *,
        name: str = "sdk",
        log: Log | None = None,
        signer: Signer | None = None,
        encrypted: bool = False,
        keys: StreamKeys | None = None,
    ) -> None:
        self._encrypted, self._signer = encrypted, signer
        self._topics = Topics(prefix=topic_prefix)
        self._source = f"trackside/sdk/{name}"
        self._connection = LogConnection(bootstrap, log, keys)
        self._keys = AnswerKeys(self._connection, self._topics.fleet.name)
        self._flush = trace_client(name)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections, and sends the spans that wait."""
        await self._connection.close()
        if self._flush is not None:
            await asyncio.to_thread(self._flush)

    async def publish(
        self,
        command: Command | Mapping[str, object],
        stream_id: str,
        command_id: str | None = None,
        traceparent: str | None = None,
        timeout_s: float = REQUEST_S,
    ) -> PublishedCommand:
        """Publishes a command to a stream, again until the log has acknowledged it, for `timeout_s` in all.

        A mapping is sent as a structured CloudEvent with `type` and `data`, which the platform validates.
        Raises UnsendableError for a command that can't be accepted, UnreachableError without a response.
        """
        command_id, commands = command_id or new_id(), self._topics.commands
        what = f"command {command_id} was not confirmed; publish it again under this id, it will count once"
        partition, began_s = partition_of(stream_id, commands.partitions), monotonic_s()
        sent = messaging.sent(commands.name, partition, key=stream_id, message_id=command_id)
        with span_of_publication(command, traceparent, sent) as own:
            record = command_record(command, stream_id, command_id, self._source, own, self._encrypted)
            if self._signer is not None:
                record = check_size(self._signer.signed(record, commands.name))
            events = self._topics.events.name
            ends = await self._connection.request(lambda log: log.ends(events), what, timeout_s)
            send = partial(self._append, stream_id=stream_id, record=record)
            appended = await self._connection.request(send, what, timeout_s, began_s)
            sent["messaging.kafka.offset"] = appended.offset
        first = ends[partition_of(stream_id, len(ends))]
        place = commands.name, partition, appended.offset
        return PublishedCommand(*place, command_id, stream_id, first, appended.append_time_ms)

    async def answer(self, publication: PublishedCommand, timeout_s: float = ANSWER_S) -> Accepted | Refused:
        """Waits for the answer to a published command; raises UnansweredError after `timeout_s` seconds.

        Where events are signed, an answer without a signature of a dispatcher is ignored.
        """
        ignored = IgnoredAnswers()
        topic_partition = (
            self._topics.events.name,
            partition_of(publication.stream_id, self._topics.event_partitions),
        )
        try:
            async with asyncio.timeout(timeout_s):
                starts = {topic_partition: publication.events_from}
                async with aclosing(self._connection.entries(starts)) as entries:
                    async for entry in entries:
                        if (found := answering(entry, {publication.source: publication})) is None:
                            continue
                        if reason := await self._keys.distrust(found[1]):
                            ignored.note(reason)
                        else:
                            return answer_in(*found)
        except TimeoutError as error:
            source = publication.source
            raise UnansweredError(
                f"command {publication.command_id} is in the log ({source.topic}-{source.partition} "
                f"offset {source.offset}), but it was not answered within {timeout_s:g} s; "
                f"is a dispatcher running?{ignored.said()}"
            ) from error
        raise AssertionError("a log has no end")

    async def send(
        self,
        command: Command | Mapping[str, object],
        stream_id: str,
        timeout_s: float = ANSWER_S,
        command_id: str | None = None,
    ) -> PublishedCommand:
        """Publishes a command, such as PauseSearch() or UpdateSearch(concurrency=8), and awaits its answer.

        Raises RefusedError if it is refused, and what `publish` and `answer` raise.
        """
        publication = await self.publish(command, stream_id, command_id)
        raise_if_refused(publication, await self.answer(publication, timeout_s))
        return publication

    async def model_version(self, source: str, **facts: Any) -> AddModelVersion:
        """Returns the command that adds an artifact, `STREAM/TASK/NAME[@VERSION]`, to a model: `send` it.

        It has the digest, parameters, metrics and inputs that the log has of its task; `facts` are more
        fields of it, such as `format`. Raises UnsendableError if there is no such artifact.
        """
        wanted = wanted_artifact(source)
        async with aclosing(folded(self._records, Streams(AGGREGATES), wanted.stream)) as records:
            return await version_of(wanted, records, facts)

    async def ping(self, stream_id: str = "ping", timeout_s: float = ANSWER_S) -> Pong:
        """Measures how long the dispatcher of a stream takes to answer; raises what `send` raises."""
        began_s = monotonic_s()
        publication = await self.publish(Ping(), stream_id)
        published_s = monotonic_s()
        answer = await self.answer(publication, timeout_s)
        whole_ms = (monotonic_s() - began_s) * 1000
        raise_if_refused(publication, answer)
        assert isinstance(answer, Accepted)
        published_ms = (published_s - began_s) * 1000
        return Pong(answer.source, published_ms, answer.time_ms - publication.time_ms, whole_ms)

    async def kind(self, stream_id: str) -> str | None:
        """Returns what a stream is about, such as "search" or "batch"; None if it has not begun."""
        async with aclosing(not_forged(self.events(stream_id))) as records:
            async for record in records:
                aggregate = AGGREGATES.begun_by(type(record.message))
                if aggregate is not None:
                    return aggregate.kind
        return None

    async def answers(
        self, publications: Sequence[PublishedCommand], timeout_s: float = ANSWER_S
    ) -> AsyncGenerator[tuple[PublishedCommand, Accepted | Refused], None]:
        """Yields answers to published commands as they arrive, until none comes for `timeout_s` seconds."""
        waiting = {publication.source: publication for publication in publications}
        topic, starts = self._topics.events, dict[tuple[str, int], int]()
        for publication in publications:
            topic_partition = (topic.name, partition_of(publication.stream_id, self._topics.event_partitions))
            first = publication.events_from
            starts[topic_partition] = min(first, starts.get(topic_partition, first))
        deadline = monotonic_s() + timeout_s

        def over() -> bool:
            return not waiting or monotonic_s() >= deadline

        async with aclosing(self._connection.entries(starts, over)) as entries:
            async for entry in entries:
                found = answering(entry, waiting)
                if found is None or await self._keys.distrust(found[1]):
                    continue
                del waiting[found[0].source]
                yield found[0], answer_in(*found)
                deadline = monotonic_s() + timeout_s

    async def events(
        self, stream_id: str, follow: bool = False, from_offset: int = 0
    ) -> AsyncGenerator[Record, None]:
        """Yields the records of a stream in log order from an offset on; with `follow` also those to come.

        Each says in `standing` whether it had an effect: the stream is folded from its beginning on.
        """
        last = -1
        async with aclosing(folded(self._records, Streams(AGGREGATES), stream_id, follow)) as records:
            async for _, outcome, record in records:
                if record.offset <= last:  # it came while the stream was parked, and was given then
                    continue
                last = record.offset
                record.standing = standing_of(record, outcome)
                if record.offset >= from_offset:
                    yield record

    async def follow(self, stream_id: str) -> AsyncGenerator[tuple[Record, Stream], None]:
        """Yields each event that was applied, with the resulting state, until the stream is over.

        All events are yielded that the log has now, so that a stream that was over and goes on is followed to
        its newest end. The state is one object, which is changed in place. Events that were held while the
        stream was parked are yielded when it goes on.
        """
        streams, last = Streams(AGGREGATES), -1
        for follow in (False, True):
            async with aclosing(folded(self._records, streams, stream_id, follow, last + 1)) as records:
                async for stream, outcome, record in records:
                    check_readable(stream)
                    last = max(last, record.offset)
                    if outcome is Outcome.APPLIED:
                        yield record, stream
                    if follow and outcome is Outcome.APPLIED and stream.over and stream.released is None:
                        return
            if last >= 0 and streams.by_id[stream_id].over:
                return

    async def wait(self, stream_id: str, timeout_s: float | None = None) -> Stream:
        """Waits until a stream is over and returns its state; raises NotOverError."""
        try:
            async with asyncio.timeout(timeout_s):
                async with aclosing(self.follow(stream_id)) as changes:
                    async for _, stream in changes:
                        last = stream
        except TimeoutError as error:
            raise NotOverError(f"{stream_id} was not over after {timeout_s:g} s; it continues") from error
        return last

    async def state(self, stream_id: str) -> Stream | None:
        """Returns the current state of a stream, or None if there is no such stream."""
        streams = Streams(AGGREGATES)
        async with aclosing(folded(self._records, streams, stream_id)) as records:
            async for _ in records:
                pass
        return streams.by_id.get(stream_id)

    async def fleet(self) -> fleet.Fleet:
        """Returns the current workers and devices."""
        folded, topic = fleet.Fleet(), self._topics.fleet.name
        ends = await self._connection.request(lambda log: log.ends(topic), "the fleet")
        entries = self._connection.entries_of((topic, 0), ends[0], False, 0, "the fleet")
        async with aclosing(entries) as read:
            async for entry in read:
                record = decode(entry)
                if record is not None:
                    fleet.evolve(folded, record)
        return folded

    def _records(self, stream_id: str, follow: bool = False, first: int = 0) -> AsyncGenerator[Record, None]:
        """Yields the records of a stream from an offset on, for who folds them itself."""
        return self._connection.records(self._topics.events.name, stream_id, follow, first)

    async def _append(self, log: Log, stream_id: str, record: Outgoing) -> Appended:
        commands = self._topics.commands
        topic_partition = (commands.name, partition_of(stream_id, commands.partitions))
        try:
            # in a batch of its own: the broker limits the size of batches, which several commands may exceed
            return await log.append(*topic_partition, [record])
        except TooLargeError as error:
            raise UnsendableError(Problem(code="too_large", message=str(error))) from error
