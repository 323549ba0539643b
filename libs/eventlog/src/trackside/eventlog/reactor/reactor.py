"""The loop of every service that decides: fold, decide, append, fold what was appended, act.

A service never acts on its own decisions, only on those in the log. The pure parts are the service's; this
module owns the order: one batch in flight per partition, no decision about a partition whose batch isn't
folded yet, no decision at all before the log is folded to the end it had at start.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial

import structlog

from trackside.contracts.envelope.message import Envelope, Record
from trackside.contracts.envelope.topics import MAX_BATCH_BYTES, partition_of
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import cause_of
from trackside.eventlog import clock
from trackside.eventlog.clock import monotonic_s, now_ms
from trackside.eventlog.errors import TransientError
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.log import Appended, Entry, Outgoing, Reader, TopicPartition
from trackside.eventlog.reactor.decider import TURN_S, Decider, Decision, DecisionContext
from trackside.eventlog.reactor.inbox import Inbox
from trackside.eventlog.reactor.own_events import OwnEvents
from trackside.eventlog.reactor.partition_writer import (
    AppendBatch,
    PartitionWriter,
    UnknownOutcome,
    WaitingDecision,
    declare_topics,
    measure_append,
    measure_hops,
)
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.eventlog.retry import retry_until_reachable
from trackside.telemetry import context
from trackside.telemetry.metrics import counter, histogram

log = structlog.get_logger("trackside.eventlog")

IDLE_S = 1.0
"""The longest wait of the loop, in s, when no timer is due; it then only updates lag and health."""
STANDBY_SILENCE_S = 0.2
"""How long no record may arrive, in s, before a standby decides: else both would write the same decisions."""
MOST_READ = 1_000
"""How many records are read at once; only if so many come, the last decision may have been read in part."""
MOST_DECIDED = 10_000
"""How many records a decision has at most."""
FINISH_S = 6.0
"""How long a service that was asked to stop waits to fold what it has sent, in s: an append has 5."""
_ENTRY_OVERHEAD = 400


@dataclass(slots=True)
class _Read:
    """Entries, and when they were read: seconds of the monotonic clock."""

    entries: list[Entry]
    read_s: float


@dataclass(slots=True)
class _Acknowledged:
    batch: AppendBatch
    appended: Appended


class Reactor:
    """Drives one decider over the log.

    `starts` are the positions to read our own topics from; `raw` those of topics that others write to.
    `partitions` holds the number of partitions of each topic that is written to. `decoded` decodes an entry
    of our topics. An error of a background task of the service ends the loop. `ready` is set once it decides;
    `positions` are the next offsets to fold; `paused` returns the topics that are not to be read for now.
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
        self.paused: Callable[[], Collection[str]] = tuple
        self._decoded = decoded
        self._writer = service.writer
        self._spans = service.spans
        self._decider = decider
        self.positions = {**starts, **raw}
        self._raw = frozenset(topic_partition[0] for topic_partition in raw)
        self._partitions = partitions
        self._health = service.health
        self._standby = standby
        self.ready = asyncio.Event()
        self._catch_up_ends: dict[TopicPartition, int] | None = None
        self._partition_writers: dict[TopicPartition, PartitionWriter] = {}
        self._own = OwnEvents()
        self.empty_reads = 0
        self._inbox: Inbox[_Read | _Acknowledged | UnknownOutcome | None] = Inbox(8)
        self._stop = service.stop
        self._background = service.background
        self._background.alarm = self.wake
        self._last_record_s = self._read_s = monotonic_s()
        self._time = clock.ClockReading(now_ms(), self._last_record_s)
        declare_topics({topic for topic, _ in self.positions}, self._partitions, self._raw)

    def wake(self) -> None:
        """Makes the loop run once more: something outside the log is ready for a decision."""
        if not self._inbox:
            self._inbox.add(None)

    @property
    def topics(self) -> list[str]:
        """The topics that it reads."""
        return sorted({topic for topic, _ in self.positions})

    def records_before(self, topic: str, ends: Mapping[int, int]) -> int:
        """Returns how many offsets of a topic, before these ends, are not folded yet."""
        positions = self.positions
        return sum(max(0, end - positions.get((topic, at), end)) for at, end in ends.items())

    def has_read_all(self, topic: str, empty_reads: int) -> bool:
        """Returns whether others write a topic, whose last offsets may hold no record: none came since."""
        return topic in self._raw and self.empty_reads >= empty_reads + 2

    async def run(self) -> None:
        """Runs until the service is told to stop; raises the error that makes it impossible to continue."""
        reader = self._log.reader(self.positions)
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
            await self._finish()
        finally:
            await self._background.close()
            await reader.close()

    async def _turn(self) -> None:
        news = await self._take_in()
        if self._background.failure is not None:
            raise self._background.failure
        if not news or not self._caught_up():
            return
        context = DecisionContext(self._time_ms(), self._busy, monotonic_s() + TURN_S)
        if not self._standby or monotonic_s() - self._last_record_s >= STANDBY_SILENCE_S:
            for decision in list(self._decider.decide(context)):
                partition = partition_of(decision.stream, self._partitions[decision.topic])
                writer = self._partition_writer((decision.topic, partition))
                read_s = self._read_s if writer.wanted_s is None else writer.wanted_s
                writer.waiting.append(WaitingDecision(decision, read_s))
            for topic_partition, writer in self._partition_writers.items():
                if not self._has_unfolded(topic_partition, writer):
                    writer.wanted_s = None
                if writer.waiting:
                    self._send(topic_partition, writer)
        self._decider.act(context)
        if context.is_cut:
            self._inbox.add(None)
            await asyncio.sleep(0)  # an inbox that has something lets nobody else run

    async def _finish(self) -> None:
        """Folds what was sent before the end, so that it is counted; decides nothing more."""
        until_s = monotonic_s() + FINISH_S
        while (left_s := until_s - monotonic_s()) > 0 and self._background.failure is None:
            if not any(self._has_unfolded(*each) for each in self._partition_writers.items()):
                return
            for item in await self._inbox.take(left_s):
                self._handle(item)

    async def _take_in(self) -> bool:
        """Waits for an item of the inbox, then handles all of them; returns whether any of them is new."""
        items = await self._inbox.take(self._wait_s())
        self._read_s = min((item.read_s for item in items if isinstance(item, _Read)), default=monotonic_s())
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

    def _handle(self, item: _Read | _Acknowledged | UnknownOutcome | None) -> bool:
        if isinstance(item, _Read):
            return self._fold_entries(item.entries)
        if isinstance(item, _Acknowledged):
            self._fold_own(item)
        elif isinstance(item, UnknownOutcome):
            writer = self._partition_writer(item.topic_partition)
            writer.in_flight = False
            writer.fold_to = item.end
            for decision in writer.sent:
                self._decider.reconsider(decision.stream)
        return True

    def _fold_entries(self, entries: list[Entry]) -> bool:
        """Folds entries not folded yet; returns False if there are none: own batches are read back, too."""
        folded: dict[str, int] = {}
        times_ms: dict[str, dict[int, None]] = {}
        latest_ms, is_live = 0, self._health.ready
        for entry in entries:
            topic_partition = (entry.topic, entry.partition)
            if entry.offset < self.positions[topic_partition]:
                continue
            self.positions[topic_partition] = entry.offset + 1
            folded[entry.topic] = folded.get(entry.topic, 0) + 1
            if is_live:
                times_ms.setdefault(entry.topic, {})[entry.append_time_ms] = None
            if entry.topic in self._raw:
                self._decider.on_external_entry(entry)
            elif (record := self._decoded(entry)) is not None:
                if entry.append_time_ms > latest_ms:
                    latest_ms = entry.append_time_ms
                self._fold(record)
        self._time = clock.not_before(self._time, latest_ms)
        if len(entries) >= MOST_READ:
            self._await_rest(entries[-1])
        if entries:
            self._last_record_s = monotonic_s()
            for topic, count in folded.items():
                counter("trackside.eventlog.read.records").labels(topic).inc(count)
            for topic, times in times_ms.items():
                measure_hops(topic, list(times))
        return bool(folded)

    def _fold(self, record: Record) -> None:
        outcome = self._decider.fold(record)
        if not self._own.take(record):
            return
        self._spans.folded(record, outcome)
        if outcome is Outcome.APPLIED:
            self._decider.count(record)
        else:
            counter("trackside.eventlog.ignored.events").labels(outcome.value).inc()

    def _await_rest(self, last: Entry) -> None:
        """Lets nothing be decided about a partition before the rest of its last decision is read, too.

        Half of a decision shows what was never so: a command that is answered, without its effect. Nothing is
        waited for where a record claims more than a decision has.
        """
        record = None if last.topic in self._raw else self._decoded(last)
        if record is None or record.envelope.index < 0:
            return
        rest = record.envelope.count - record.envelope.index
        if rest <= MOST_DECIDED:
            writer = self._partition_writer((last.topic, last.partition))
            writer.fold_to = max(writer.fold_to, last.offset + rest)

    def _fold_own(self, acknowledged: _Acknowledged) -> None:
        """Folds an acknowledged batch at once, unless records of others precede it."""
        batch, appended = acknowledged.batch, acknowledged.appended
        writer = self._partition_writer(batch.topic_partition)
        writer.in_flight = False
        writer.fold_to = appended.offset + len(batch.records)
        if self.positions[batch.topic_partition] != appended.offset:
            return
        self.positions[batch.topic_partition] = writer.fold_to
        time_ms = appended.append_time_ms
        self._time = clock.not_before(self._time, time_ms)
        for at, (record, message) in enumerate(zip(batch.records, batch.messages, strict=True)):
            envelope = Envelope({name: octets or b"" for name, octets in record.headers})
            place = (*batch.topic_partition, appended.offset + at, time_ms)
            self._fold(Record(*place, envelope, message, record.value or b""))

    def _time_ms(self) -> int:
        """Returns the wall clock in ms, corrected if it was set back or is behind the log's.

        Timers are due by append times. A host whose clock is half an hour late would wait that long.
        """
        self._time = clock.read_forward(self._time)
        return int(self._time.now_ms)

    def _busy(self, topic: str, stream: str) -> bool:
        topic_partition = (topic, partition_of(stream, self._partitions[topic]))
        writer = self._partition_writers.get(topic_partition)
        if writer is None or not (writer.waiting or self._has_unfolded(topic_partition, writer)):
            return False
        if writer.wanted_s is None:
            writer.wanted_s = self._read_s
        return True

    def _has_unfolded(self, topic_partition: TopicPartition, writer: PartitionWriter) -> bool:
        return writer.in_flight or self.positions[topic_partition] < writer.fold_to

    def _partition_writer(self, topic_partition: TopicPartition) -> PartitionWriter:
        return self._partition_writers.setdefault(topic_partition, PartitionWriter())

    def _send(self, topic_partition: TopicPartition, writer: PartitionWriter) -> None:
        """Sends as many whole decisions as fit one batch, unless the partition has a batch in flight."""
        if self._has_unfolded(topic_partition, writer):
            return
        batch = AppendBatch(topic_partition)
        writer.sent = []
        size = 0
        while writer.waiting:
            decision, read_s = writer.waiting[0]
            traceparent, made = self._records(topic_partition, decision)
            weight = sum(len(record.value or b"") + _ENTRY_OVERHEAD for record in made)
            if batch.records and size + weight > MAX_BATCH_BYTES:
                break
            writer.waiting.popleft()
            batch.records += made
            batch.messages += decision.proposal.events
            batch.read_s.append(read_s)
            batch.traceparents.append(traceparent)
            writer.sent.append(decision)
            size += weight
        writer.in_flight = True
        self._own.add(batch.records)
        self._background.spawn(self._append(batch))

    def _records(self, topic_partition: TopicPartition, decision: Decision) -> tuple[str, list[Outgoing]]:
        stream, topic, proposal, key = decision.stream, decision.topic, decision.proposal, decision.public_key
        cause = cause_of(proposal.follows_in or stream, proposal.follows)
        own = context.child_of(proposal.traceparent)
        trace = proposal.begins_trace or own
        records = self._writer.decision(
            stream, proposal.events, cause=cause, traceparent=trace, topic=topic, public_key=key
        )
        self._spans.begin(topic_partition, stream, proposal, own, records)
        return own, records

    async def _append(self, batch: AppendBatch) -> None:
        topic, partition = batch.topic_partition
        began_s = monotonic_s()
        try:
            appended = await self._log.append(topic, partition, batch.records)
        except TransientError as error:
            counter("trackside.eventlog.append_retries.batches").labels(topic).inc()
            end = await self._end_of(batch.topic_partition, str(error))
            await self._inbox.put(UnknownOutcome(batch.topic_partition, end))
            return
        measure_append(batch, appended, began_s)
        await self._inbox.put(_Acknowledged(batch, appended))

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
        for topic in dict.fromkeys(topic for topic, _ in self.positions if topic not in self._raw):
            ends = await retry_until_reachable(partial(self._log.ends, topic), self._on_failure)
            ends_at_start.update({(topic, partition): end for partition, end in ends.items()})
        self._health.waiting(None)
        return ends_at_start

    def _on_failure(self, reason: str) -> None:
        self._health.waiting(f"waiting for the log: {reason}")

    def _caught_up(self) -> bool:
        if not self._catch_up_ends:
            return self._catch_up_ends is not None
        goals, positions = self._catch_up_ends, self.positions
        left = {place: goal for place, goal in goals.items() if positions.get(place, goal) < goal}
        self._catch_up_ends = left
        self._health.behind = sum(goal - positions[place] for place, goal in left.items())
        return not left

    async def _pump(self, reader: Reader) -> None:
        """Passes the entries that are read to the loop."""
        while True:
            reader.pause(self.paused())
            entries = await reader.read(IDLE_S, MOST_READ)
            if entries:
                await self._inbox.put(_Read(entries, monotonic_s()))
            else:
                self.empty_reads += 1

    async def _when_stopped(self) -> None:
        await self._stop.wait()
        await self._inbox.put(None)
