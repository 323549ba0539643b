"""The one loop of every service that decides: fold, decide, append, fold what came back, act.

A service never acts on what it decided, only on what the log says was decided. The pure parts are the
service's; this module owns order: one batch in flight per partition, nothing decided about a partition
whose batch isn't folded yet, nothing decided at all before the log was folded to the end it had at start.
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
"""The longest wait of the loop when no timer is due: only lag and health are looked at then."""
STANDBY_SILENCE_S = 0.2
"""How long the log must be silent before a standby decides, so that it doesn't double the log."""
_ENTRY_OVERHEAD = 400


@dataclass(frozen=True, slots=True)
class Decision:
    """A proposal on its way into the log: for one stream of one topic."""

    topic: str
    stream: str
    proposal: Proposal


@dataclass(slots=True)
class Facts:
    """What a decision may use besides the state: the time, and where something is on its way into the log."""

    now_ms: int
    busy: Callable[[str, str], bool]
    """Says whether the partition of (topic, stream) has something in flight: don't decide about it now."""


class Decider(Protocol):
    """A service as the reactor drives it. None of these may block or await."""

    def fold(self, record: Record) -> None:
        """Folds a record of a topic of ours into the state."""
        ...

    def arrive(self, entry: Entry) -> None:
        """Takes an entry of a topic that anyone writes to, undecoded."""
        ...

    def decide(self, facts: Facts) -> Iterable[Decision]:
        """Gives what the state lacks. Called again after anything changed."""
        ...

    def reconsider(self, stream: str) -> None:
        """Looks at a stream again: what was decided about it may not have reached the log."""
        ...

    def act(self, facts: Facts) -> None:
        """Starts what the state says is due; must be harmless when repeated."""
        ...

    def next_due_ms(self) -> int | None:
        """Gives the next moment, ms since 1970, at which something is due without any record."""
        ...


@dataclass(slots=True)
class _PartitionWriter:
    """Writes one partition: decisions that wait, the batch in flight, how far it must be folded."""

    waiting: deque[Decision] = field(default_factory=deque)
    sent: list[Decision] = field(default_factory=list)
    flying: bool = False
    fold_to: int = 0


@dataclass(slots=True)
class _Landed:
    place: TopicPartition
    appended: Appended
    records: list[Outgoing]
    messages: list[Message]


@dataclass(slots=True)
class _Unknown:
    """An append whose fate is unknown: everything up to `end` must be folded before deciding again."""

    place: TopicPartition
    end: int


class Reactor:
    """Drives one decider over the log.

    `starts` are the positions to read from, for topics of ours; `raw` those of topics that anyone writes.
    `partitions` holds the number of partitions of each topic that is written to. `decoded` reads an entry of
    ours. An error of any background task of the service ends the loop. `ready` is set once it decides.
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
        self._raw = frozenset(place[0] for place in raw)
        self._partitions = partitions
        self._health = service.health
        self._standby = standby
        self.ready = asyncio.Event()
        self._goals: dict[TopicPartition, int] | None = None
        self._partition_writers: dict[TopicPartition, _PartitionWriter] = {}
        self._inbox: Inbox[list[Entry] | _Landed | _Unknown | None] = Inbox(8)
        self._stop = service.stop
        self._background = service.background
        self._background.alarm = self.wake
        self._last_record_s = monotonic_s()
        self._time = clock.Moment(now_ms(), self._last_record_s)

    def wake(self) -> None:
        """Makes the loop turn once more: something outside the log is ready to be decided upon."""
        if not self._inbox:
            self._inbox.add(None)

    async def run(self) -> None:
        """Runs until the service is told to stop; raises what makes it impossible to go on."""
        reader = self._log.reader(self._positions)
        self._background.spawn(self._pump(reader))
        self._background.spawn(self._when_stopped())
        started = monotonic_s()
        try:
            self._goals = await self._ends()
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
            for place, partition_writer in self._partition_writers.items():
                if partition_writer.waiting:
                    self._send(place, partition_writer)
        self._decider.act(facts)

    async def _take_in(self) -> bool:
        """Waits for something to happen, then takes in all that has; says whether it is anything new."""
        items = await self._inbox.take(self._wait_s())
        news = not items
        for item in items:
            news = self._handle(item) or news
        return news

    def _wait_s(self) -> float:
        due = self._decider.next_due_ms()
        limit = STANDBY_SILENCE_S if self._standby else IDLE_S
        wait = limit if due is None else min(limit, max(0.001, (due - self._time_ms()) / 1000))
        if self._standby:  # what is due stays due while it may not decide
            wait = max(wait, STANDBY_SILENCE_S - (monotonic_s() - self._last_record_s))
        return wait

    def _handle(self, item: list[Entry] | _Landed | _Unknown | None) -> bool:
        if isinstance(item, list):
            return self._fold_entries(item)
        if isinstance(item, _Landed):
            self._fold_own(item)
        elif isinstance(item, _Unknown):
            partition_writer = self._partition_writer(item.place)
            partition_writer.flying = False
            partition_writer.fold_to = item.end
            for decision in partition_writer.sent:
                self._decider.reconsider(decision.stream)
        return True

    def _fold_entries(self, entries: list[Entry]) -> bool:
        """Folds what was not folded yet; False if all was: own batches, once more on their way back."""
        folded: dict[str, int] = {}
        latest_ms = 0
        for entry in entries:
            place = (entry.topic, entry.partition)
            if entry.offset < self._positions[place]:
                continue
            self._positions[place] = entry.offset + 1
            folded[entry.topic] = folded.get(entry.topic, 0) + 1
            if entry.topic in self._raw:
                self._decider.arrive(entry)
            elif (record := self._decoded(entry)) is not None:
                if entry.append_time_ms > latest_ms:
                    latest_ms = entry.append_time_ms
                self._decider.fold(record)
        self._time = clock.not_before(self._time, latest_ms)
        if entries:
            self._last_record_s = monotonic_s()
            for topic, count in folded.items():
                counter("trackside.eventlog.read.records").labels(topic).inc(count)
            last = entries[-1]
            self._health.set_lag(last.topic, max(0.0, (now_ms() - last.append_time_ms) / 1000))
        return bool(folded)

    def _fold_own(self, landed: _Landed) -> None:
        """Folds an acknowledged batch at once, if nobody else's records lie before it."""
        partition_writer = self._partition_writer(landed.place)
        partition_writer.flying = False
        first = landed.appended.offset
        partition_writer.fold_to = first + len(landed.records)
        if self._positions[landed.place] != first:
            return
        topic, partition = landed.place
        self._positions[landed.place] = partition_writer.fold_to
        self._time = clock.not_before(self._time, landed.appended.append_time_ms)
        for at, (record, message) in enumerate(zip(landed.records, landed.messages, strict=True)):
            envelope = Envelope({name: octets or b"" for name, octets in record.headers})
            time = landed.appended.append_time_ms
            self._decider.fold(Record(topic, partition, first + at, time, envelope, message))

    def _time_ms(self) -> int:
        """Gives the wall clock, where it neither was put back nor is behind the log's: timers go on.

        What is due is due by append times. A host whose clock is half an hour late would wait that long.
        """
        self._time = clock.forward(self._time)
        return int(self._time.now_ms)

    def _busy(self, topic: str, stream: str) -> bool:
        place = (topic, partition_of(stream, self._partitions[topic]))
        partition_writer = self._partition_writers.get(place)
        return partition_writer is not None and self._is_busy(place, partition_writer)

    def _is_busy(self, place: TopicPartition, partition_writer: _PartitionWriter) -> bool:
        return (
            partition_writer.flying
            or bool(partition_writer.waiting)
            or self._positions[place] < partition_writer.fold_to
        )

    def _partition_writer(self, place: TopicPartition) -> _PartitionWriter:
        return self._partition_writers.setdefault(place, _PartitionWriter())

    def _send(self, place: TopicPartition, partition_writer: _PartitionWriter) -> None:
        """Sends as many whole decisions as fit one batch, if nothing of the partition is in flight."""
        if partition_writer.flying or self._positions[place] < partition_writer.fold_to:
            return
        records: list[Outgoing] = []
        messages: list[Message] = []
        partition_writer.sent = []
        size = 0
        while partition_writer.waiting:
            made = self._records(partition_writer.waiting[0])
            weight = sum(len(record.value or b"") + _ENTRY_OVERHEAD for record in made)
            if records and size + weight > MAX_BATCH_BYTES:
                break
            decision = partition_writer.waiting.popleft()
            records += made
            messages += decision.proposal.events
            partition_writer.sent.append(decision)
            size += weight
        partition_writer.flying = True
        self._background.spawn(self._append(place, records, messages))

    def _records(self, decision: Decision) -> list[Outgoing]:
        stream, proposal = decision.stream, decision.proposal
        cause = cause_of(stream, proposal.follows)
        with context.start(proposal.span, proposal.traceparent or None, {"stream": stream}) as traceparent:
            return self._writer.decision(stream, proposal.events, cause=cause, traceparent=traceparent)

    async def _append(self, place: TopicPartition, records: list[Outgoing], messages: list[Message]) -> None:
        topic, partition = place
        began = monotonic_s()
        try:
            appended = await self._log.append(topic, partition, records)
        except TransientError as error:
            counter("trackside.eventlog.append_retries.batches").labels(topic).inc()
            await self._inbox.put(_Unknown(place, await self._end_of(place, str(error))))
            return
        histogram("trackside.eventlog.append.seconds").labels(topic).observe(monotonic_s() - began)
        counter("trackside.eventlog.appended.batches").labels(topic).inc()
        counter("trackside.eventlog.appended.events").labels(topic).inc(len(records))
        await self._inbox.put(_Landed(place, appended, records, messages))

    async def _end_of(self, place: TopicPartition, reason: str) -> int:
        """Asks until the broker answers where the partition ends; health says why we wait."""
        topic, partition = place
        log.warning("append has an unknown fate", topic=topic, partition=partition, reason=reason)
        ends = await retry_until_reachable(partial(self._log.ends, topic), self._silent)
        self._health.waiting(None)
        return ends[partition]

    async def _ends(self) -> dict[TopicPartition, int]:
        """Gives where our own topics end now; what others write needn't be read before deciding."""
        goals: dict[TopicPartition, int] = {}
        for topic in dict.fromkeys(topic for topic, _ in self._positions if topic not in self._raw):
            ends = await retry_until_reachable(partial(self._log.ends, topic), self._silent)
            goals.update({(topic, partition): end for partition, end in ends.items()})
        self._health.waiting(None)
        return goals

    def _silent(self, reason: str) -> None:
        self._health.waiting(f"waiting for the log: {reason}")

    def _caught_up(self) -> bool:
        if not self._goals:
            return self._goals is not None
        reached = [place for place, goal in self._goals.items() if self._positions.get(place, goal) >= goal]
        for place in reached:
            del self._goals[place]
        return not self._goals

    async def _pump(self, reader: Reader) -> None:
        """Brings what is read to the loop."""
        while True:
            entries = await reader.read(IDLE_S)
            if entries:
                await self._inbox.put(entries)
            else:
                self._nothing_new()

    def _nothing_new(self) -> None:
        for topic in {place[0] for place in self._positions}:
            self._health.set_lag(topic, 0.0)

    async def _when_stopped(self) -> None:
        await self._stop.wait()
        await self._inbox.put(None)
