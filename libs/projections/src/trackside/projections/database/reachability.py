"""Reports soon that Postgres does not answer, or lets nobody in: those who need it retry in silence."""

from collections.abc import Callable
from functools import partial

from trackside.eventlog.reachability import WITHIN_S, report_until_reachable
from trackside.projections.database.dsn import address_of
from trackside.projections.database.postgres import ask_postgres


async def report_until_postgres_is_reachable(
    dsn: str, say: Callable[[str], None], within_s: float = WITHIN_S
) -> None:
    """Reports that Postgres does not answer at its address, and why; every 30 s until it does."""
    server = f"Postgres at {address_of(dsn)}"
    await report_until_reachable(server, partial(ask_postgres, dsn), say, within_s)
