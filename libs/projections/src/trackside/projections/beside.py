"""Runs an owner's read models beside its service: Postgres may be down, deciding goes on."""

import structlog

from trackside.eventlog.serving import Service
from trackside.projections.runner import run_projection

log = structlog.get_logger("trackside.projections")


async def project(owner: str, service: Service) -> None:
    """Keeps the read models of `owner` at the end of the log until the service stops."""

    said = ""

    def waiting(reason: str | None) -> None:
        nonlocal said
        if reason is not None and not said:
            log.warning("read models wait", owner=owner, reason=reason)
        elif reason is None and said:
            log.info("read models go on", owner=owner)
        said = reason or ""

    await run_projection(
        owner,
        service.log,
        service.settings.topics,
        service.settings.postgres_dsn,
        stop=service.stop,
        waiting=waiting,
    )
