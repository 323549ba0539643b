"""Spans as the OpenTelemetry SDK exports them; imported only where an exporter is configured."""

import sys
from collections.abc import Iterable
from typing import Final

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.semconv.attributes import error_attributes as error
from opentelemetry.semconv.attributes import exception_attributes as exception
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from trackside.contracts.envelope.redaction import redact
from trackside.contracts.envelope.trace_context import parse
from trackside.telemetry.context import Failure, Span, SpanRecorder

SCHEMA: Final = "https://opentelemetry.io/schemas/1.44.0"
"""The version of the semantic conventions whose names the attributes have."""
_SCOPE: Final = InstrumentationScope("trackside", schema_url=SCHEMA)
_KINDS: Final = {
    "internal": SpanKind.INTERNAL,
    "producer": SpanKind.PRODUCER,
    "consumer": SpanKind.CONSUMER,
    "client": SpanKind.CLIENT,
}


def resource_of(service: str, instance: str) -> Resource:
    """Returns what all spans and log lines of one service instance have in common."""
    return Resource.create({"service.name": f"trackside.{service}", "service.instance.id": instance})


def recorder(resource: Resource, processor: SpanProcessor) -> SpanRecorder:
    """Returns a recorder of spans for `trackside.telemetry.context`; the processor exports them.

    The spans are made whole, for their ids are in the log before they end: a tracer would draw its own.
    """

    def record(span: Span) -> None:
        processor.on_end(_exported(span, resource))

    return record


def _exported(span: Span, resource: Resource) -> ReadableSpan:
    context = _context(span.traceparent, is_remote=False)
    assert context is not None, "a span has ids that are well formed"
    attributes = dict(span.attributes)
    if span.failure is not None:
        attributes[error.ERROR_TYPE] = span.failure.kind
    return ReadableSpan(
        name=span.name,
        context=context,
        parent=_context(span.parent),
        resource=resource,
        attributes=BoundedAttributes(attributes=attributes, immutable=True),
        events=[] if span.failure is None else [_exception(span.failure, span.end_ns)],
        links=list(_links(span.links)),
        kind=_KINDS[span.kind],
        instrumentation_scope=_SCOPE,
        status=_status(span.failure),
        start_time=span.start_ns,
        end_time=max(span.start_ns, span.end_ns),
    )


def _status(failure: Failure | None) -> Status:
    return Status() if failure is None else Status(StatusCode.ERROR, redact(failure.message))


def _exception(failure: Failure, at_ns: int) -> Event:
    attributes = {
        exception.EXCEPTION_TYPE: failure.kind,
        exception.EXCEPTION_MESSAGE: redact(failure.message),
    }
    if failure.stacktrace:
        attributes[exception.EXCEPTION_STACKTRACE] = redact(failure.stacktrace)
    return Event("exception", attributes, at_ns)


def _links(traceparents: Iterable[str]) -> Iterable[Link]:
    for traceparent in traceparents:
        if (context := _context(traceparent)) is not None:
            yield Link(context)


def _context(traceparent: str | None, *, is_remote: bool = True) -> SpanContext | None:
    parts = parse(traceparent)
    if parts is None:
        return None
    flags = TraceFlags(int(parts.flags, 16))
    return SpanContext(int(parts.trace, 16), int(parts.span, 16), is_remote, flags)


def foreign_span() -> str | None:
    """Returns the `traceparent` of OpenTelemetry's current span; None without one.

    A program that has one has imported OpenTelemetry, so this imports nothing.
    """
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    span = trace.get_current_span().get_span_context()
    if not span.is_valid:
        return None
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"
