"""Switches a process's telemetry on: logs of services always, traces when a collector is named."""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

from trackside.telemetry import context
from trackside.telemetry.logs import add_handler, configure_logs, logger

FLUSH_LIMIT_S: Final = 2.0
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_LOGS: Final = "OTEL_LOGS_EXPORTER"
_SAMPLER: Final = "OTEL_TRACES_SAMPLER"
_RATIO: Final = "OTEL_TRACES_SAMPLER_ARG"
_SAMPLERS: Final = ("always_on", "always_off", "traceidratio")


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What `configure` started, to be shut down when the service ends."""

    close: Callable[[], None] | None = None

    def shutdown(self, limit_s: float = FLUSH_LIMIT_S) -> bool:
        """Sends the spans that wait; returns whether it was done within `limit_s` seconds.

        A collector that doesn't respond must not delay the end of a service, so slower spans are lost.
        """
        context.set_recorder(None)
        return self.close is None or _within(self.close, limit_s)


def configure(service: str, *, instance: str) -> Telemetry:
    """Configures logs and traces of this process as service `trackside.<service>`.

    Spans are exported by OTLP over HTTP if OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT
    is set, and lines of the log too if OTEL_LOGS_EXPORTER is `otlp`; the exporters read the other
    OTEL_EXPORTER_OTLP_* variables themselves. If none is set, nothing is exported, and nothing of
    OpenTelemetry is imported. Raises ValueError for an unknown OTEL_TRACES_SAMPLER, or a ratio that is none.
    """
    configure_logs()
    context.set_sampling(sampled_share(os.environ))
    exports = (_export_logs(service, instance), _export_spans(service, instance))
    closing = [close for close in exports if close is not None]

    def close_all() -> None:
        for close in closing:
            close()

    return Telemetry(close_all if closing else None)


@cache
def trace_client(name: str) -> Callable[[], bool] | None:
    """Exports the spans of a program that publishes commands, as `trackside.<name>`, if a collector is named.

    Returns what sends the spans that wait, within FLUSH_LIMIT_S; None if the program exports none, or has an
    exporter already, as a service does.
    """
    if context.is_recording() or not _has_collector():
        return None
    context.set_sampling(sampled_share(os.environ))
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from trackside.telemetry import spans

    processor = BatchSpanProcessor(OTLPSpanExporter())
    context.set_recorder(spans.recorder(spans.resource_of(name, str(os.getpid())), processor))
    return lambda: _within(processor.force_flush, FLUSH_LIMIT_S)


def sampled_share(variables: "os._Environ[str] | dict[str, str]") -> float:
    """Returns which share of the traces that begin here is sampled, by OpenTelemetry's own variables.

    A sampler is the same with and without `parentbased_`: the decision of a trace that has begun is kept.
    """
    chosen = variables.get(_SAMPLER) or "parentbased_always_on"
    sampler = chosen.removeprefix("parentbased_")
    if sampler not in _SAMPLERS:
        known = ", ".join(f"[parentbased_]{name}" for name in _SAMPLERS)
        raise ValueError(f"{_SAMPLER}={chosen!r} is not a sampler: expected one of {known}")
    if sampler != "traceidratio":
        return float(sampler == "always_on")
    text = variables.get(_RATIO) or "1"
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise ValueError(f"{_RATIO}={text!r} is not a ratio: expected a number from 0 to 1")
    return ratio


def _has_collector() -> bool:
    return any(os.environ.get(name) for name in _ENDPOINTS)


def _export_spans(service: str, instance: str) -> Callable[[], None] | None:
    """Starts exporting; imports here because the SDK and its exporter take 0.3 s to import."""
    context.set_recorder(None)
    if not _has_collector():
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from trackside.telemetry import spans

    processor = BatchSpanProcessor(OTLPSpanExporter())
    context.set_recorder(spans.recorder(spans.resource_of(service, instance), processor))
    return processor.shutdown


def _export_logs(service: str, instance: str) -> Callable[[], None] | None:
    """Starts exporting the lines of the log, if OpenTelemetry's variable asks for it."""
    if os.environ.get(_LOGS, "none") != "otlp":
        return None
    from trackside.telemetry import otlp_logs

    handler, close = otlp_logs.exporting_handler(service, instance)
    add_handler(handler)
    return close


def _within(work: Callable[[], object], limit_s: float) -> bool:
    """Runs `work` in a thread and returns whether it ended within `limit_s` seconds."""
    closing = threading.Thread(target=work, name="trackside-telemetry-flush", daemon=True)
    closing.start()
    closing.join(limit_s)
    if closing.is_alive():
        logger("trackside.telemetry").warning("spans lost: no response from the collector", limit_s=limit_s)
    return not closing.is_alive()
