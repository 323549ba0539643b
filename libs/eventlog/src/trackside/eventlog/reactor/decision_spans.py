"""The spans of decisions: exported once the log has the decision and it counts, by the process that made it.

A standby, or a fold of the past, exports none of them: it has not made these decisions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from trackside.contracts.envelope.message import Record
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import Proposal
from trackside.eventlog.log import Outgoing, TopicPartition
from trackside.telemetry import context, messaging
from trackside.telemetry.context import Attributes, Failure, Span, SpanKind

NS_PER_MS = 1_000_000
MAX_OPEN = 10_000
"""How many decisions may be on their way into the log; the oldest of more is given up."""


@dataclass(frozen=True, slots=True)
class Description:
    """What the span of a decision says, and the spans that are exported with it, such as that of a trial.

    The end of these is the append time of the decision, unless they have one.
    """

    attributes: Attributes = field(default_factory=dict)
    kind: SpanKind = "producer"
    failure: Failure | None = None
    ending: tuple[Span, ...] = ()


Describe = Callable[[str, Proposal], Description]
"""Describes a decision about a stream, by the state that it was made on."""


@dataclass(slots=True)
class _Open:
    span: Span
    ending: tuple[Span, ...]


class DecisionSpans:
    """The spans of the decisions that are on their way into the log, by the id of their first event.

    `describe` is the service's; without it they say nothing but their name and place.
    """

    def __init__(self) -> None:
        self.describe: Describe = lambda _stream, _proposal: Description()
        self._open: dict[bytes, _Open] = {}

    def begin(
        self,
        topic_partition: TopicPartition,
        stream: str,
        proposal: Proposal,
        traceparent: str,
        records: Sequence[Outgoing],
    ) -> None:
        """Begins the span of a decision whose records are sent next, if its trace is exported."""
        if not context.is_recording(traceparent):
            return
        described = self.describe(stream, proposal)
        message_id = _message_id(records[0])
        topic, partition = topic_partition
        sent = messaging.sent(
            topic, partition, key=stream, message_id=message_id.decode(), count=len(records)
        )
        at_ns = context.now_ns()
        span = Span(
            name=proposal.span,
            traceparent=traceparent,
            parent=proposal.traceparent or None,
            start_ns=at_ns,
            end_ns=at_ns,
            kind=described.kind,
            attributes={**sent, "trackside.stream": stream, **described.attributes},
            failure=described.failure,
        )
        self._open[message_id] = _Open(span, described.ending)
        if len(self._open) > MAX_OPEN:  # it never reached the log: a decision is folded long before
            del self._open[next(iter(self._open))]

    def folded(self, record: Record, outcome: Outcome) -> None:
        """Exports the spans of a decision of this process, if this is its first record and it counts."""
        if not self._open:
            return
        opened = self._open.pop(record.envelope.headers.get("ce_id", b""), None)
        if opened is None or outcome is not Outcome.APPLIED:
            return
        span, appended_ns = opened.span, record.append_time_ms * NS_PER_MS
        attributes = dict(span.attributes)
        attributes.setdefault("messaging.kafka.offset", record.offset)
        context.record(replace(span, end_ns=context.now_ns(), attributes=attributes))
        for ending in opened.ending:
            end_ns = ending.end_ns or max(ending.start_ns, appended_ns)
            context.record(replace(ending, end_ns=end_ns))


def _message_id(record: Outgoing) -> bytes:
    return next(octets or b"" for name, octets in record.headers if name == "ce_id")
