"""The loop of every service that decides: fold, decide, append, fold what was appended, act.

A service never acts on its own decisions, only on those that are in the log. The pure parts are the
service's; this module owns the order: one batch in flight per partition, no decision about a partition
whose batch isn't folded yet, no decision at all before the log is folded to the end it had at start.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import structlog

from trackside.contracts.message import Envelope, Message, Record
from trackside.contracts.topics import MAX_BATCH_BYTES, partition_of
from trackside.domain.proposal import Proposal, cause_of
from trackside.eventlog import clock
from trackside.eventlog.clock import monotonic_s, now_ms
from trackside.eventlog.decode import decode
from trackside.eventlog.errors import TransientError
from trackside.eventlog.inbox import Inbox
from trackside.eventlog.log import Appended, Entry, Outgoing, Reader, TopicPartition
from trackside.eventlog.retry import retry_until_reachable
from trackside.eventlog.service_context import ServiceContext
from trackside.telemetry import context
from trackside.telemetry.metrics import counter, histogram

log = structlog.get_logger("trackside.eventlog")

IDLE_S = 1.0
"""The longest wait of the loop, in s, when no timer is due; it then only updates lag and health."""
STANDBY_SILENCE_S = 0.2
"""How long no record may arrive, in s, before a standby decides: else both would write the same decisions."""
MOST_READ = 10_000
"""How many records are read at once; only if so many come, the last decision may have been read in part."""
_ENTRY_OVERHEAD = 400


@dataclass(frozen=True, slots=True)
class Decision:
    """A proposal on its way into the log: for one stream of one topic."""

    topic: str
    stream: str
    proposal: Proposal


@dataclass(slots=True)
class Facts:
    """What a decision may use besides the state: the time, and which partitions have appends in flight."""

    now_ms: int
    busy: Callable[[str, str], bool]
    """Returns whether the partition of (topic, stream) has an append in flight: don't decide about it now."""


class Decider(Protocol):
    """A service as the reactor drives it. None of these may block or await."""

    def fold(self, record: Record) -> None:
        """Folds a record of one of our own topics into the state."""
        ...

    def arrive(self, entry: Entry) -> None:
        """Receives an undecoded entry of a topic that others write to."""
        ...

    def decide(self, facts: Facts) -> Iterable[Decision]:
        """Returns the decisions that the state needs. Called again after any change."""
        ...

    def reconsider(self, stream: str) -> None:
        """Marks a stream to be decided about again: its last decision may not have reached the log."""
        ...

    def act(self, facts: Facts) -> None:
        """Starts the actions that are due; must be idempotent."""
        ...

    def next_due_ms(self) -> int | None:
        """Returns the next time, in ms since 1970, at which something is due without a record."""
        ...


@dataclass(slots=True)
class _PartitionWriter:
    """Writes one partition: decisions that wait, the batch in flight, how far it must be folded."""

    waiting: deque[Decision] = field(default_factory=deque)
    sent: list[Decision] = field(default_factory=list)
    in_flight: bool = False
    fold_to: int = 0


@dataclass(slots=True)
class _Acknowledged:
    topic_partition: TopicPartition
    appended: Appended
    records: list[Outgoing]
    messages: list[Message]


@dataclass(slots=True)
class _UnknownOutcome:
    """An append with an unknown outcome: fold everything up to `end` before deciding again."""

    topic_partition: TopicPartition
    end: int


class Reactor:
    """Drives one decider over the log.

    `starts` are the positions to read our own topics from; `raw` those of topics that others write to.
    `partitions` holds the number of partitions of each topic that is written to. `decoded` decodes an entry
    of our topics. An error of a background task of the service ends the loop. `ready` is set once it decides.
    """

    def __init__(
        self,
        service: ServiceContext,
        decider: Decider,
        *,
        starts: Mapping[TopicPartition, int],
        raw: Mapping[TopicPartition, int],
        partitions: Mapping[str, int],
        standby: bool = False,
        decoded: Callable[[Entry], Record | None] = decode,
    ) -> None:
        self._log = service.log
        self._decoded = decoded
        self._writer = service.writer
        self._decider = decider
        self._positions = {**starts, **raw}
        self._raw = frozenset(topic_partition[0] for topic_partition in raw)
        self._partitions = partitions
        self._health = service.health
        self._standby = standby
        self.ready = asyncio.Event()
        self._catch_up_ends: dict[TopicPartition, int] | None = None
        self._partition_writers: dict[TopicPartition, _PartitionWriter] = {}
        self._inbox: Inbox[list[Entry] | _Acknowledged | _UnknownOutcome | None] = Inbox(8)
        self._stop = service.stop
        self._background = service.background
        self._background.alarm = self.wake
        self._last_record_s = monotonic_s()
        self._time = clock.ClockReading(now_ms(), self._last_record_s)

    def wake(self) -> None:
        """Makes the loop run once more: something outside the log is ready for a decision."""
        if not self._inbox:
            self._inbox.add(None)

    async def run(self) -> None:
        """Runs until the service is told to stop; raises the error that makes it impossible to continue."""
        reader = self._log.reader(self._positions)
        self._background.spawn(self._pump(reader))
        self._background.spawn(self._when_stopped())
        started = monotonic_s()
        try:
            self._catch_up_ends = await self._ends()
            self.wake()
            while not self._stop.is_set():
                await self._turn()
                if not self._health.ready and self._caught_up():
                    histogram("trackside.eventlog.recovery.seconds").observe(monotonic_s() - started)
                    self._health.ready = True
                    self.ready.set()
        finally:
            await self._background.close()
            await reader.close()

    async def _turn(self) -> None:
        news = await self._take_in()
        if self._background.failure is not None:
            raise self._background.failure
        if not news or not self._caught_up():
            return
        facts = Facts(self._time_ms(), self._busy)
        if not self._standby or monotonic_s() - self._last_record_s >= STANDBY_SILENCE_S:
            for decision in list(self._decider.decide(facts)):
                partition = partition_of(decision.stream, self._partitions[decision.topic])
                self._partition_writer((decision.topic, partition)).waiting.append(decision)
            for topic_partition, writer in self._partition_writers.items():
                if writer.waiting:
                    self._send(topic_partition, writer)
        self._decider.act(facts)

    async def _take_in(self) -> bool:
        """Waits for an item of the inbox, then handles all of them; returns whether any of them is new."""
        items = await self._inbox.take(self._wait_s())
        news = not items
        for item in items:
            news = self._handle(item) or news
        return news

    def _wait_s(self) -> float:
        due = self._decider.next_due_ms()
        limit = STANDBY_SILENCE_S if self._standby else IDLE_S
        wait = limit if due is None else min(limit, max(0.001, (due - self._time_ms()) / 1000))
        if self._standby:  # timers stay due while it may not decide
            wait = max(wait, STANDBY_SILENCE_S - (monotonic_s() - self._last_record_s))
        return wait

    def _handle(self, item: list[Entry] | _Acknowledged | _UnknownOutcome | None) -> bool:
        if isinstance(item, list):
            return self._fold_entries(item)
        if isinstance(item, _Acknowledged):
            self._fold_own(item)
        elif isinstance(item, _UnknownOutcome):
            writer = self._partition_writer(item.topic_partition)
            writer.in_flight = False
            writer.fold_to = item.end
            for decision in writer.sent:
                self._decider.reconsider(decision.stream)
        return True

    def _fold_entries(self, entries: list[Entry]) -> bool:
        """Folds entries not folded yet; returns False if there are none: own batches are read back, too."""
        folded: dict[str, int] = {}
        latest_ms = 0
        for entry in entries:
            topic_partition = (entry.topic, entry.partition)
            if entry.offset < self._positions[topic_partition]:
                continue
            self._positions[topic_partition] = entry.offset + 1
            folded[entry.topic] = folded.get(entry.topic, 0) + 1
            if entry.topic in self._raw:
                self._decider.arrive(entry)
            elif (record := self._decoded(entry)) is not None:
                if entry.append_time_ms > latest_ms:
                    latest_ms = entry.append_time_ms
                self._decider.fold(record)
        self._time = clock.not_before(self._time, latest_ms)
        if len(entries) >= MOST_READ:
            self._await_rest(entries[-1])
        if entries:
            self._last_record_s = monotonic_s()
            for topic, count in folded.items():
                counter("trackside.eventlog.read.records").labels(topic).inc(count)
            last = entries[-1]
            self._health.set_lag(last.topic, max(0.0, (now_ms() - last.append_time_ms) / 1000))
        return bool(folded)

    def _await_rest(self, last: Entry) -> None:
        """Lets nothing be decided about a partition before the rest of its last decision is read, too.

        Half of a decision shows what was never so: a command that is answered, without its effect. None is
        longer than a read, so nothing is waited for where a record claims that.
        """
        record = None if last.topic in self._raw else self._decoded(last)
        if record is None or record.envelope.index < 0:
            return
        rest = record.envelope.count - record.envelope.index
        if rest <= MOST_READ:
            writer = self._partition_writer((last.topic, last.partition))
            writer.fold_to = max(writer.fold_to, last.offset + rest)

    def _fold_own(self, acknowledged: _Acknowledged) -> None:
        """Folds an acknowledged batch at once, unless records of others precede it."""
        writer = self._partition_writer(acknowledged.topic_partition)
        writer.in_flight = False
        first = acknowledged.appended.offset
        writer.fold_to = first + len(acknowledged.records)
        if self._positions[acknowledged.topic_partition] != first:
            return
        topic, partition = acknowledged.topic_partition
        self._positions[acknowledged.topic_partition] = writer.fold_to
        self._time = clock.not_before(self._time, acknowledged.appended.append_time_ms)
        for at, (record, message) in enumerate(zip(acknowledged.records, acknowledged.messages, strict=True)):
            envelope = Envelope({name: octets or b"" for name, octets in record.headers})
            time = acknowledged.appended.append_time_ms
            self._decider.fold(Record(topic, partition, first + at, time, envelope, message))

    def _time_ms(self) -> int:
        """Returns the wall clock in ms, corrected if it was set back or is behind the log's.

        Timers are due by append times. A host whose clock is half an hour late would wait that long.
        """
        self._time = clock.read_forward(self._time)
        return int(self._time.now_ms)

    def _busy(self, topic: str, stream: str) -> bool:
        topic_partition = (topic, partition_of(stream, self._partitions[topic]))
        writer = self._partition_writers.get(topic_partition)
        return writer is not None and self._is_busy(topic_partition, writer)

    def _is_busy(self, topic_partition: TopicPartition, writer: _PartitionWriter) -> bool:
        return writer.in_flight or bool(writer.waiting) or self._positions[topic_partition] < writer.fold_to

    def _partition_writer(self, topic_partition: TopicPartition) -> _PartitionWriter:
        return self._partition_writers.setdefault(topic_partition, _PartitionWriter())

    def _send(self, topic_partition: TopicPartition, writer: _PartitionWriter) -> None:
        """Sends as many whole decisions as fit one batch, unless the partition has a batch in flight."""
        if writer.in_flight or self._positions[topic_partition] < writer.fold_to:
            return
        records: list[Outgoing] = []
        messages: list[Message] = []
        writer.sent = []
        size = 0
        while writer.waiting:
            made = self._records(writer.waiting[0])
            weight = sum(len(record.value or b"") + _ENTRY_OVERHEAD for record in made)
            if records and size + weight > MAX_BATCH_BYTES:
                break
            decision = writer.waiting.popleft()
            records += made
            messages += decision.proposal.events
            writer.sent.append(decision)
            size += weight
        writer.in_flight = True
        self._background.spawn(self._append(topic_partition, records, messages))

    def _records(self, decision: Decision) -> list[Outgoing]:
        stream, proposal = decision.stream, decision.proposal
        cause = cause_of(proposal.follows_in or stream, proposal.follows)
        with context.start(proposal.span, proposal.traceparent or None, {"stream": stream}) as traceparent:
            return self._writer.decision(stream, proposal.events, cause=cause, traceparent=traceparent)

    async def _append(
        self, topic_partition: TopicPartition, records: list[Outgoing], messages: list[Message]
    ) -> None:
        topic, partition = topic_partition
        began = monotonic_s()
        try:
            appended = await self._log.append(topic, partition, records)
        except TransientError as error:
            counter("trackside.eventlog.append_retries.batches").labels(topic).inc()
            await self._inbox.put(
                _UnknownOutcome(topic_partition, await self._end_of(topic_partition, str(error)))
            )
            return
        histogram("trackside.eventlog.append.seconds").labels(topic).observe(monotonic_s() - began)
        counter("trackside.eventlog.appended.batches").labels(topic).inc()
        counter("trackside.eventlog.appended.events").labels(topic).inc(len(records))
        await self._inbox.put(_Acknowledged(topic_partition, appended, records, messages))

    async def _end_of(self, topic_partition: TopicPartition, reason: str) -> int:
        """Requests the end of the partition until the broker responds; health shows why it waits."""
        topic, partition = topic_partition
        log.warning("append has an unknown outcome", topic=topic, partition=partition, reason=reason)
        ends = await retry_until_reachable(partial(self._log.ends, topic), self._on_failure)
        self._health.waiting(None)
        return ends[partition]

    async def _ends(self) -> dict[TopicPartition, int]:
        """Returns the current ends of our own topics; topics of others needn't be read before deciding."""
        ends_at_start: dict[TopicPartition, int] = {}
        for topic in dict.fromkeys(topic for topic, _ in self._positions if topic not in self._raw):
            ends = await retry_until_reachable(partial(self._log.ends, topic), self._on_failure)
            ends_at_start.update({(topic, partition): end for partition, end in ends.items()})
        self._health.waiting(None)
        return ends_at_start

    def _on_failure(self, reason: str) -> None:
        self._health.waiting(f"waiting for the log: {reason}")

    def _caught_up(self) -> bool:
        if not self._catch_up_ends:
            return self._catch_up_ends is not None
        reached = [
            topic_partition
            for topic_partition, goal in self._catch_up_ends.items()
            if self._positions.get(topic_partition, goal) >= goal
        ]
        for topic_partition in reached:
            del self._catch_up_ends[topic_partition]
        return not self._catch_up_ends

    async def _pump(self, reader: Reader) -> None:
        """Passes the entries that are read to the loop."""
        while True:
            entries = await reader.read(IDLE_S, MOST_READ)
            if entries:
                await self._inbox.put(entries)
            else:
                self._reset_lag()

    def _reset_lag(self) -> None:
        for topic in {topic_partition[0] for topic_partition in self._positions}:
            self._health.set_lag(topic, 0.0)

    async def _when_stopped(self) -> None:
        await self._stop.wait()
        await self._inbox.put(None)
