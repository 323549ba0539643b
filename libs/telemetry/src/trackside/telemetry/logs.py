"""Structured logs on stderr: JSON lines for machines, columns for a terminal.

Tracebacks are without local variables, which hold what a service was configured with, and what looks like a
secret is redacted in every line.
"""

import logging
import sys
from typing import Final, TextIO, cast

import structlog
from structlog.processors import ExceptionRenderer
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from trackside.contracts.envelope.redaction import REDACTED, called, redact
from trackside.contracts.envelope.trace_context import parse
from trackside.telemetry import context

_HANDLER: Final = "trackside"
_JSON_TRACEBACKS: Final = ExceptionRenderer(ExceptionDictTransformer(show_locals=False))


def logger(name: str) -> FilteringBoundLogger:
    """Returns a logger; `name` is the package or module, such as `trackside.scheduler`.

    Bind what all lines of a block share with `structlog.contextvars.bound_contextvars(stream=..., task=...)`.
    """
    return cast(FilteringBoundLogger, structlog.stdlib.get_logger(name))


def configure_logs(*, json_logs: bool | None = None, level: str = "info", out: TextIO | None = None) -> None:
    """Sends the lines of structlog and of the standard library to `out` (stderr) in one format.

    `json_logs` none means JSON unless `out` is a terminal. `level` is a name of the standard library's, in
    either case; raises ValueError for another.
    """
    out = out or sys.stderr
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ValueError(f"log level {level!r}: expected debug, info, warning, error or critical")
    as_json = not out.isatty() if json_logs is None else json_logs
    structlog.configure(
        processors=[*_shared(), structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.stdlib.LoggerFactory(),
    )
    _replace_handler(_handler(out, as_json), number)
    # While a broker is down aiokafka writes ten lines a second; our own log reports an outage once.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


def _shared() -> list[Processor]:
    """Returns the processors of every line, whichever library wrote it."""
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        _add_span,
    ]


def _add_span(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Adds the ids of the span that is open where the line is written."""
    if span := parse(context.current()):
        event.setdefault("trace_id", span.trace)
        event.setdefault("span_id", span.span)
    return event


def _redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {name: _redacted(value, name) for name, value in event.items()}


def _redacted(value: object, name: str = "") -> object:
    """Returns a value with redacted texts, in lists and dicts too; another object becomes its text.

    A text whose field has the name of a secret is redacted whole.
    """
    match value:
        case None | bool() | int() | float() | "":
            return value
        case dict():
            return {key: _redacted(inner, str(key)) for key, inner in value.items()}
        case list() | tuple():
            return [_redacted(inner, name) for inner in value]
        case _ if called(name):
            return REDACTED
        case _:
            return redact(str(value))


def _columns(out: TextIO) -> Processor:
    return structlog.dev.ConsoleRenderer(
        colors=out.isatty(), timestamp_key="time", exception_formatter=structlog.dev.plain_traceback
    )


def _handler(out: TextIO, as_json: bool) -> logging.Handler:
    columns: list[Processor] = [structlog.processors.format_exc_info, _redact, _columns(out)]
    handler = logging.StreamHandler(out)
    handler.set_name(_HANDLER)
    handler.setFormatter(json_formatter() if as_json else _formatter(columns))
    return handler


def json_formatter() -> logging.Formatter:
    """Returns the formatter of lines as JSON, with tracebacks as lists, and secrets redacted."""
    return _formatter([_JSON_TRACEBACKS, _redact, structlog.processors.JSONRenderer()])


def _formatter(ending: list[Processor]) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_shared(),
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *ending],
    )


def add_handler(handler: logging.Handler) -> None:
    """Lets another handler take the lines too; `configure_logs` removes it."""
    handler.set_name(_HANDLER)
    logging.getLogger().addHandler(handler)


def _replace_handler(handler: logging.Handler, level: int) -> None:
    """Installs our handler, once: a second call replaces it and leaves other handlers in place."""
    root = logging.getLogger()
    for old in [h for h in root.handlers if h.get_name() == _HANDLER]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
