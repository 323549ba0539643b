"""Warnings of what waits for Kafka or Postgres: seldom, for requests are repeated several times a second."""

import math

import structlog

from trackside.eventlog.clock import monotonic_s

log = structlog.get_logger("trackside.summary_indexer")

AGAIN_S = 30.0


class RateLimitedWarning:
    """Logs an event with its reason, at most every 30 s; None means that it is over, and is not logged."""

    def __init__(self, event: str) -> None:
        self._event = event
        self._logged_s = -math.inf

    def __call__(self, reason: str | None) -> None:
        """Logs it if that is due."""
        now_s = monotonic_s()
        if reason is None:
            self._logged_s = -math.inf
        elif now_s - self._logged_s >= AGAIN_S:
            self._logged_s = now_s
            log.warning(self._event, reason=reason)
