"""Counts the ends of attempts, each once: by the process that has written it, when the log has it."""

from collections.abc import Callable

from trackside.contracts.tasks.tasks import AttemptEnded
from trackside.eventlog.log import Appended
from trackside.telemetry.metrics import counter, exemplar, histogram


def count_end(
    event: AttemptEnded, traceparent: str, then: Callable[[Appended], None] | None, appended: Appended
) -> None:
    """Counts an end that the log has; it is not counted when it is sent again."""
    counter("trackside.worker.ended.tasks").labels(event.end.value).inc()
    trace = exemplar(traceparent)
    if event.load_time_ms >= 0:
        histogram("trackside.worker.load.seconds").observe(event.load_time_ms / 1000, trace)
    if event.train_time_ms >= 0:
        histogram("trackside.worker.train.seconds").observe(event.train_time_ms / 1000, trace)
    if then is not None:
        then(appended)
