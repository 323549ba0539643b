"""Switches a service's telemetry on: logs always, traces when a collector is named."""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from trackside.telemetry import context
from trackside.telemetry.logs import configure_logs, logger

FLUSH_LIMIT_S: Final = 2.0
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What `configure` started, to be shut down when the service ends."""

    close: Callable[[], None] | None = None

    def shutdown(self, limit_s: float = FLUSH_LIMIT_S) -> bool:
        """Sends the spans that wait; returns whether it was done within `limit_s` seconds.

        A collector that doesn't respond must not delay the end of a service, so slower spans are lost.
        """
        context.set_recorder(None)
        if self.close is None:
            return True
        closing = threading.Thread(target=self.close, name="trackside-telemetry-flush", daemon=True)
        closing.start()
        closing.join(limit_s)
        if closing.is_alive():
            logger("trackside.telemetry").warning(
                "spans lost: no response from the collector", limit_s=limit_s
            )
        return not closing.is_alive()


def configure(service: str, *, instance: str) -> Telemetry:
    """Configures logs and traces of this process as service `trackside.<service>`.

    Spans are exported by OTLP over HTTP if OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT
    is set; the exporter reads the other OTEL_EXPORTER_OTLP_* variables itself. If neither is set, nothing is
    exported and nothing of OpenTelemetry is imported.
    """
    configure_logs()
    if not any(os.environ.get(name) for name in _ENDPOINTS):
        context.set_recorder(None)
        return Telemetry()
    return Telemetry(_export(service, instance))


def _export(service: str, instance: str) -> Callable[[], None]:
    """Starts exporting; imports here because the SDK and its exporter take 0.3 s to import."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from trackside.telemetry import spans

    tracers = spans.provider(service, instance, BatchSpanProcessor(OTLPSpanExporter()))
    context.set_recorder(spans.recorder(tracers))
    return tracers.shutdown
