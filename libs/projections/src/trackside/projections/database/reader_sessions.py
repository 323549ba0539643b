"""Ends sessions of the login of dashboards that last too long: its own settings do not limit it."""

import asyncio

from trackside.eventlog.clock import monotonic_s
from trackside.projections.database.postgres import Connection, database, lock_tables, sql
from trackside.projections.database.settings import READER
from trackside.telemetry.logs import logger
from trackside.telemetry.metrics import counter

LIMIT_S, EVERY_S = 15.0, 5.0
"""How long a statement or a transaction of the login may last, and how often that is looked at."""
BEFORE_CHANGE_S = 0.25
"""How long it may last where tables or views are to be replaced: dashboards ask again."""
LOCK_WAIT_S, LOCK_PAUSE_S, SAID_AFTER_S = 0.1, 0.02, 5.0
NO_RIGHT = (
    f"this user of Postgres may not end sessions of {READER}, which so can hold up services: have an "
    f"administrator of the server run `GRANT {READER} TO` this user"
)
log = logger("trackside.projections")


async def end_sessions(connection: Connection, over_s: float, *, everywhere: bool = False) -> int | None:
    """Ends sessions of the login whose statement or transaction has lasted over `over_s` s, and counts them.

    Sessions with an advisory lock are ended, too; `everywhere`: also in other databases of the server.
    Returns how many; None without the right to end them.
    """
    may_end = await connection.fetchval(sql("queries", "may_end"), READER)
    if may_end is None:
        return 0
    if not may_end:
        return None
    await connection.execute("SELECT pg_stat_clear_snapshot()")  # else a transaction sees the same sessions
    ended = len(await connection.fetch(sql("queries", "end_sessions"), READER, over_s, everywhere))
    counter("trackside.projections.ended.sessions").inc(ended)
    return ended


async def end_long_sessions(dsn: str, every_s: float = EVERY_S, limit_s: float = LIMIT_S) -> None:
    """Ends sessions of the login that last longer than they may, every few seconds, until cancelled."""

    async def work(connection: Connection) -> int | None:
        return await end_sessions(connection, limit_s, everywhere=True)

    said = False
    async with database(dsn) as opened:
        while True:
            ended = await opened.commit_with_retries(work, lambda _reason: None)
            if ended:
                log.warning("sessions have lasted too long and were ended", login=READER, count=ended)
            elif ended is None and not said:
                log.warning(NO_RIGHT)
                said = True
            await asyncio.sleep(every_s)


async def lock_from_readers(connection: Connection, query: str, *values: object) -> None:
    """Locks all relations that a query names, or none, so that other readers wait only briefly.

    Sessions of the login that are in the way are ended after 0.25 s; for others it waits. One lock after
    the other could be a deadlock, for which Postgres would cancel a reader.
    """
    began_s, said = monotonic_s(), False
    while names := [row["name"] for row in await connection.fetch(query, *values)]:
        if await lock_tables(connection, ", ".join(names), LOCK_WAIT_S, "ACCESS EXCLUSIVE"):
            return
        ended = await end_sessions(connection, BEFORE_CHANGE_S)
        if not said and monotonic_s() - began_s > SAID_AFTER_S:
            said = True
            holders = await connection.fetch(sql("queries", "blockers"), names)
            log.warning(
                "tables and views can't be replaced while sessions read them; end these",
                sessions=[f"{row['usename']}, pid {row['pid']}" for row in holders],
                **({"hint": NO_RIGHT} if ended is None else {}),
            )
        await asyncio.sleep(LOCK_PAUSE_S)
