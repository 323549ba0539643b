"""Spans that a user's program has opened with OpenTelemetry itself."""

import sys


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
