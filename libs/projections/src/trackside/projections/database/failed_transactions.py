"""Counts the transactions that failed because Postgres did not answer; each is tried again."""

from collections.abc import Callable

from trackside.telemetry.metrics import counter

OnWaiting = Callable[[str | None], None]


def count_failures(projection: str, report: OnWaiting) -> OnWaiting:
    """Returns a function that reports why a transaction is tried again, and counts it; None: it succeeded."""
    failures = counter("trackside.projections.failed.transactions").labels(projection=projection)

    def reported(reason: str | None) -> None:
        if reason is not None:
            failures.inc()
        report(reason)

    return reported
