"""Lines of the log as the OpenTelemetry SDK exports them; imported only where that is asked for."""

import json
import logging
from collections.abc import Callable
from typing import Any, Final

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.trace import TraceFlags

from trackside.contracts.envelope.trace_context import parse
from trackside.telemetry import context
from trackside.telemetry.logs import json_formatter
from trackside.telemetry.spans import SCHEMA, resource_of

_SEVERITIES: Final = (
    (logging.CRITICAL, SeverityNumber.FATAL),
    (logging.ERROR, SeverityNumber.ERROR),
    (logging.WARNING, SeverityNumber.WARN),
    (logging.INFO, SeverityNumber.INFO),
    (logging.DEBUG, SeverityNumber.DEBUG),
)
_EXPORTERS: Final = ("opentelemetry", "urllib3")
"""Loggers whose lines are about the export: exporting them too would never end."""
_OWN_FIELDS: Final = ("event", "level", "logger", "time", "trace_id", "span_id")
"""What a line has that a record has as fields of its own."""


def exporting_handler(service: str, instance: str) -> tuple[logging.Handler, Callable[[], None]]:
    """Returns a handler that exports lines by OTLP over HTTP, and what sends the rest and ends it."""
    provider = LoggerProvider(resource_of(service, instance), shutdown_on_exit=False)
    provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
    return _ExportingHandler(provider), provider.shutdown


class _ExportingHandler(logging.Handler):
    """Exports what the log on stderr says: the same lines, with the same words redacted."""

    def __init__(self, provider: LoggerProvider) -> None:
        super().__init__()
        self._provider = provider
        self.setFormatter(json_formatter())
        self.addFilter(lambda record: not record.name.startswith(_EXPORTERS))

    def emit(self, record: logging.LogRecord) -> None:
        line = json.loads(self.format(record))
        name = str(line.get("logger", record.name))
        self._provider.get_logger(name, schema_url=SCHEMA).emit(_exported(record, line))


def _exported(record: logging.LogRecord, line: dict[str, Any]) -> LogRecord:
    parts = parse(context.current())
    return LogRecord(
        timestamp=int(record.created * 1e9),
        observed_timestamp=context.now_ns(),
        trace_id=None if parts is None else int(parts.trace, 16),
        span_id=None if parts is None else int(parts.span, 16),
        trace_flags=None if parts is None else TraceFlags(int(parts.flags, 16)),
        severity_text=record.levelname,
        severity_number=next(
            (severity for level, severity in _SEVERITIES if record.levelno >= level), SeverityNumber.TRACE
        ),
        body=str(line.get("event", "")),
        attributes={
            name: _attribute(value)
            for name, value in line.items()
            if name not in _OWN_FIELDS and value is not None
        },
    )


def _attribute(value: Any) -> str | bool | int | float:
    """Returns a value as an attribute may have it: lists and objects as JSON."""
    return value if isinstance(value, str | bool | int | float) else json.dumps(value)
