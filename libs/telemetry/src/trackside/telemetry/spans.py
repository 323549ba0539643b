"""Spans recorded with the OpenTelemetry SDK; imported only where an exporter is configured."""

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from trackside.telemetry.context import Attributes, SpanRecorder


def provider(service: str, instance: str, processor: SpanProcessor) -> TracerProvider:
    """Returns a tracer provider for one service instance; the caller shuts it down."""
    resource = Resource.create({"service.name": f"trackside.{service}", "service.instance.id": instance})
    made = TracerProvider(resource=resource, shutdown_on_exit=False)
    made.add_span_processor(processor)
    return made


def recorder(tracers: TracerProvider) -> SpanRecorder:
    """Returns a recorder of spans for `trackside.telemetry.context`, made with this provider."""
    tracer = tracers.get_tracer("trackside")

    @contextmanager
    def record(name: str, parent: str | None, attributes: Attributes | None) -> Iterator[str]:
        above = trace.set_span_in_context(_remote(parent)) if parent else None
        with tracer.start_as_current_span(name, context=above, attributes=attributes) as span:
            yield _traceparent(span.get_span_context())

    return record


def _remote(traceparent: str) -> NonRecordingSpan:
    """Reads a `traceparent` that context.py has found well formed."""
    _, trace_id, span_id, flags = traceparent.split("-")[:4]
    return NonRecordingSpan(
        SpanContext(
            int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16))
        )
    )


def _traceparent(span: SpanContext) -> str:
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"
