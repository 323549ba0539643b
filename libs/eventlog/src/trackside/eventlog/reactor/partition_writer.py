"""What a reactor keeps of a partition that it writes to, and what it measures of each append."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from trackside.contracts.envelope.message import Message
from trackside.eventlog.clock import monotonic_s, now_ms
from trackside.eventlog.log import Appended, Outgoing, TopicPartition
from trackside.eventlog.reactor.decider import Decision
from trackside.telemetry.metrics import counter, declare, exemplar, gauge, histogram


class WaitingDecision(NamedTuple):
    """A decision, and when the record was read that led to it: seconds of the monotonic clock."""

    decision: Decision
    read_s: float


@dataclass(slots=True)
class PartitionWriter:
    """Writes one partition: decisions that wait, the batch in flight, how far it must be folded.

    `wanted_s` is when a record was read that a decision could not follow yet, because of the batch.
    """

    waiting: deque[WaitingDecision] = field(default_factory=deque)
    sent: list[Decision] = field(default_factory=list)
    in_flight: bool = False
    fold_to: int = 0
    wanted_s: float | None = None


@dataclass(slots=True)
class AppendBatch:
    """The records of whole decisions, to be appended at once; `read_s` and `traceparents` by decision."""

    topic_partition: TopicPartition
    records: list[Outgoing] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    read_s: list[float] = field(default_factory=list)
    traceparents: list[str] = field(default_factory=list)


@dataclass(slots=True)
class UnknownOutcome:
    """An append with an unknown outcome: fold everything up to `end` before deciding again."""

    topic_partition: TopicPartition
    end: int


def measure_append(batch: AppendBatch, appended: Appended, began_s: float) -> None:
    """Measures an acknowledged append: its time, that of its decisions, and how far the clocks differ."""
    topic, done_s = batch.topic_partition[0], monotonic_s()
    histogram("trackside.eventlog.append.seconds").labels(topic).observe(done_s - began_s)
    counter("trackside.eventlog.appended.batches").labels(topic).inc()
    counter("trackside.eventlog.appended.events").labels(topic).inc(len(batch.records))
    decisions = histogram("trackside.eventlog.decision.seconds")
    for read_s, traceparent in zip(batch.read_s, batch.traceparents, strict=True):
        decisions.observe(done_s - read_s, exemplar(traceparent))
    appended_ms = now_ms() - (done_s - began_s) * 500  # halfway between sending and acknowledgement
    gauge("trackside.health.clock_skew.seconds").set((appended_ms - appended.append_time_ms) / 1000)


def measure_hops(topic: str, append_times_ms: Sequence[int]) -> None:
    """Measures how long appends took to be folded here."""
    hops, folded_ms = histogram("trackside.eventlog.hop.seconds").labels(topic), now_ms()
    for append_time_ms in append_times_ms:
        hops.observe(max(0, folded_ms - append_time_ms) / 1000)


def declare_topics(read: Iterable[str], written: Iterable[str], raw: Iterable[str]) -> None:
    """Begins the series of the topics that a reactor reads, and of those that it writes to."""
    declare("trackside.eventlog.dead_letters.records", topic=tuple(raw))
    declare("trackside.eventlog.read.records", topic=tuple(read))
    declare("trackside.eventlog.hop.seconds", topic=tuple(read))
    for name in (
        "trackside.eventlog.append.seconds",
        "trackside.eventlog.appended.batches",
        "trackside.eventlog.appended.events",
        "trackside.eventlog.append_retries.batches",
    ):
        declare(name, topic=tuple(written))
