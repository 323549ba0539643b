"""Trace context: W3C `traceparent` strings that travel in message headers, and the spans that they name.

This runs once per decision, so without an exporter it only makes ids (about 6 us a span) and imports nothing
of OpenTelemetry. Ids are made either way: in a log written without a collector, they still show which records
belong together.
"""

import os
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, Literal

from trackside.contracts.envelope.ids import CHANCE
from trackside.contracts.envelope.trace_context import SAMPLED, parse

Attributes = Mapping[str, str | bool | int | float]
SpanKind = Literal["internal", "producer", "consumer", "client"]
_UNSAMPLED: Final = "00"
_ALL: Final = 1 << 64

_current: ContextVar[str | None] = ContextVar("trackside_traceparent", default=None)


@dataclass(frozen=True, slots=True)
class Failure:
    """What a span failed of: its class in few values, a sentence, and the traceback if there is one."""

    kind: str
    message: str
    stacktrace: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """A span that is over. `parent` is the `traceparent` of the span above it, none for a root.

    Its times are ns since 1970. `links` are the `traceparent`s of spans of other traces.
    """

    name: str
    traceparent: str
    parent: str | None
    start_ns: int
    end_ns: int
    kind: SpanKind = "internal"
    attributes: Attributes = field(default_factory=dict)
    links: tuple[str, ...] = ()
    failure: Failure | None = None


SpanRecorder = Callable[[Span], None]

_recorder: SpanRecorder | None = None
_sampled_below: int = _ALL


def set_recorder(recorder: SpanRecorder | None) -> None:
    """Sets the recorder of spans in this process; with None, spans are only ids."""
    global _recorder
    _recorder = recorder


def set_sampling(ratio: float) -> None:
    """Sets which share of the traces that begin in this process is sampled, 0 to 1.

    A trace that has begun keeps its decision, in all processes: it is in the flags that the log holds.
    """
    global _sampled_below
    _sampled_below = round(ratio * _ALL)


def is_recording(traceparent: str | None = None) -> bool:
    """Returns whether this process exports spans, and those of the given trace are sampled."""
    if _recorder is None:
        return False
    parts = parse(traceparent)
    return parts is None or parts.is_sampled


def record(span: Span) -> None:
    """Exports a span, if there is an exporter and its trace is sampled."""
    if _recorder is not None and is_recording(span.traceparent):
        _recorder(span)


def now_ns() -> int:
    """Returns the wall clock in ns since 1970, as the times of spans are."""
    return time.time_ns()  # noqa: TID251 - spans are finer than the ms of the log's clock, and decide nothing


def new_traceparent() -> str:
    """Returns the `traceparent` of a new root span; whether it is sampled follows from its trace id."""
    trace = _digits(16)
    sampled = _sampled_below == _ALL or int(trace[16:], 16) < _sampled_below
    return f"00-{trace}-{_digits(8)}-{SAMPLED if sampled else _UNSAMPLED}"


def current() -> str | None:
    """Returns the `traceparent` of the span that is open here, or none."""
    return _current.get()


def start(
    name: str,
    parent_traceparent: str | None = None,
    attributes: Attributes | None = None,
    kind: SpanKind = "internal",
) -> AbstractContextManager[str]:
    """Opens a span and yields its `traceparent`.

    The parent is `parent_traceparent`, else the span open here, else none: a new trace. A malformed parent
    starts a new trace too, as W3C Trace Context section 3.2.4 asks for: the headers of foreign publishers
    never raise an error here. An exception that leaves the block is recorded on the span and propagates.
    """
    parent = _current.get() if parent_traceparent is None else parent_traceparent
    own = child_of(parent)
    if not is_recording(own):
        return _Opened(own)
    return _Recorded(own, name, parent if parse(parent) else None, attributes or {}, kind)


def within(traceparent: str) -> AbstractContextManager[str]:
    """Makes a span the open one within a block; who has drawn its ids exports it."""
    return _Opened(traceparent)


def child_of(parent: str | None) -> str:
    """Returns a `traceparent` with a new span id in the parent's trace; without a good parent, a root."""
    parts = parse(parent)
    if parts is None:
        return new_traceparent()
    trace, _, flags = parts
    return f"00-{trace}-{_digits(8)}-{flags}"


def _digits(octets: int) -> str:
    return (CHANCE.get() or os.urandom)(octets).hex()


class _Opened:
    """A span that is open within a block: a class, for a generator takes three times as long."""

    __slots__ = ("_token", "_traceparent")

    def __init__(self, traceparent: str) -> None:
        self._traceparent = traceparent

    def __enter__(self) -> str:
        self._token = _current.set(self._traceparent)
        return self._traceparent

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)


class _Recorded(_Opened):
    """A span that is open within a block, and is exported at its end."""

    __slots__ = ("_attributes", "_kind", "_name", "_parent", "_start_ns")

    def __init__(
        self, traceparent: str, name: str, parent: str | None, attributes: Attributes, kind: SpanKind
    ) -> None:
        super().__init__(traceparent)
        self._name, self._parent, self._attributes, self._kind = name, parent, attributes, kind

    def __enter__(self) -> str:
        self._start_ns = now_ns()
        return super().__enter__()

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        failure = next((failure_of(each) for each in raised if isinstance(each, Exception)), None)
        own, start_ns = self._traceparent, self._start_ns
        record(
            Span(self._name, own, self._parent, start_ns, now_ns(), self._kind, self._attributes, (), failure)
        )


def failure_of(error: BaseException) -> Failure:
    """Returns what a span says of an exception."""
    name = type(error).__qualname__
    return Failure(name, str(error) or name, "".join(traceback.format_exception(error)))
