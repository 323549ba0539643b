"""Keeps an owner's read models in the background of its service, which continues while Postgres is down."""

import structlog

from trackside.domain.streams import Streams
from trackside.eventlog.reactor import Reactor
from trackside.eventlog.service_context import ServiceContext
from trackside.projections.row_changes import RowChanges
from trackside.projections.service_rows import DecidingState, write_rows

log = structlog.get_logger("trackside.projections")


async def keep_rows(
    service: ServiceContext, changes: RowChanges, streams: Streams, reactor: Reactor, *, standby: bool
) -> None:
    """Keeps the read models at the state that the reactor folds, until the service stops."""
    owner, health = changes.owner.name, service.health

    def on_waiting(reason: str | None) -> None:
        if reason is not None and not health.rows_wait:
            log.warning("read models wait", owner=owner, reason=reason)
        elif reason is None and health.rows_wait:
            log.info("read models continue", owner=owner)
        health.rows_wait = reason or ""

    folded = DecidingState(changes, streams, lambda: reactor.positions)
    await write_rows(service, folded, standby=standby, on_waiting=on_waiting)
