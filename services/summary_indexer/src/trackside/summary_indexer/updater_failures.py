"""Writes failures of updaters to the log: the first at once, those of one that keeps failing more rarely."""

from dataclasses import dataclass, field
from functools import partial
from math import inf

import structlog

from trackside.contracts.envelope.topics import partition_of
from trackside.contracts.tasks.summaries import SummaryUpdaterFailed
from trackside.eventlog.clock import monotonic_s, now_ms
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.eventlog.retry import retry_until_reachable
from trackside.summary_indexer.rate_limited_warnings import RateLimitedWarning
from trackside.summary_indexer.validation import MAX_UPDATER
from trackside.telemetry.metrics import counter

log = structlog.get_logger("trackside.summary_indexer")
_warn = RateLimitedWarning("the failure of an updater waits for the log")

FIRST_PAUSE_S, LONGEST_PAUSE_S = 60.0, 3_600.0
"""How long the next failures of an updater are only counted; the pause doubles while it keeps failing."""
MAX_ERROR = 1_000
"""How many characters of an error are written."""


@dataclass(slots=True)
class _Failures:
    count: int = 0
    pause_s: float = 0.0
    reported_s: float = -inf
    failed_s: float = -inf


@dataclass(slots=True)
class FailurePauses:
    """Counts the failures of each updater, and says which ones are written. Pure: times are given, in s."""

    _of: dict[str, _Failures] = field(default_factory=dict)

    def count(self, name: str, now_s: float) -> int | None:
        """Counts a failure; returns how many there were if it is to be written, else None.

        An updater that hasn't failed for as long as its pause begins with the first pause again.
        """
        known = self._of.setdefault(name, _Failures())
        quiet_s, known.failed_s = now_s - known.failed_s, now_s
        known.count += 1
        if now_s - known.reported_s < known.pause_s:
            return None
        known.pause_s = FIRST_PAUSE_S if quiet_s > known.pause_s else min(2 * known.pause_s, LONGEST_PAUSE_S)
        known.reported_s = now_s
        return known.count


class FailureReporter:
    """Logs and counts failures of updaters, and writes `SummaryUpdaterFailed` to the topic of metrics."""

    def __init__(self, service: ServiceContext) -> None:
        self._service, self._pauses = service, FailurePauses()

    async def report(self, name: str, error: Exception) -> None:
        """Notes a failure; waits until the log has its record, if it gets one."""
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        counter("trackside.summary_indexer.failed.updaters").inc()
        log.error("updater failed", updater=name, reason=text)
        failures = self._pauses.count(name, monotonic_s())
        if failures is None:
            return
        name = name[:MAX_UPDATER]
        event = SummaryUpdaterFailed(name=name, error=text[:MAX_ERROR], failures=failures, time_ms=now_ms())
        topic = self._service.topics.metrics
        record = self._service.writer.single(name, event)
        place = partition_of(name, topic.partitions)
        await retry_until_reachable(partial(self._service.log.publish, topic.name, place, record), _warn)
