"""Keeps an owner's read models in the background of its service, which continues while Postgres is down."""

import structlog

from trackside.eventlog.service_context import ServiceContext
from trackside.projections.runner import run_projection

log = structlog.get_logger("trackside.projections")


async def project(owner: str, service: ServiceContext) -> None:
    """Keeps the read models of `owner` at the end of the log until the service stops."""

    logged = ""

    def on_waiting(reason: str | None) -> None:
        nonlocal logged
        if reason is not None and not logged:
            log.warning("read models wait", owner=owner, reason=reason)
        elif reason is None and logged:
            log.info("read models continue", owner=owner)
        logged = reason or ""

    await run_projection(owner, service, on_waiting=on_waiting)
