"""Somebody with the login of dashboards who holds all that it can get."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TypeAlias

import asyncpg

from tests.integration.projections.harness import query
from tests.polling import poll_until
from trackside.projections.database.settings import READER

SESSIONS = 20
"""How many the login may have."""
OURS = f"FROM pg_stat_activity WHERE usename = '{READER}'"
UNLIMITED = "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0"
ENDLESS = "SELECT pg_sleep(1e6) FROM positions"
Session: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


@dataclass
class Login:
    """The login of dashboards on a server, and what it holds; `owner` is the DSN of the owner of the rows."""

    dsn: str
    owner: str
    closing: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def connect(self, **server: str) -> Session:
        """Opens a session that has lifted its own limits."""
        connection: Session = await asyncpg.connect(self.dsn, **server)  # type: ignore[call-overload]
        self.closing.callback(connection.terminate)
        await connection.execute(UNLIMITED)
        return connection

    async def hold_all(self) -> None:
        """Keeps a transaction that has read every view, and endless statements in all other sessions."""
        reading = await self.connect()
        await reading.execute("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        for (view,) in await query(
            self.owner, "SELECT viewname FROM pg_views WHERE schemaname = 'dashboards'"
        ):
            await reading.fetch(f"SELECT * FROM dashboards.{view} LIMIT 1")  # noqa: S608
            await reading.execute(f"LOCK TABLE dashboards.{view} IN ACCESS SHARE MODE")
        for _ in range(SESSIONS - 1):
            endless = asyncio.ensure_future((await self.connect()).fetch(ENDLESS))
            endless.add_done_callback(lambda ended: ended.cancelled() or ended.exception())

        async def all_run() -> bool:
            running = await query(
                self.owner, f"SELECT pid {OURS} AND query = $1 AND state = 'active'", ENDLESS
            )
            return len(running) == SESSIONS - 1

        await poll_until(all_run)

    async def lost_some(self) -> bool:
        """Returns whether one of its sessions was ended."""
        return len(await query(self.owner, f"SELECT pid {OURS}")) < SESSIONS

    async def release(self) -> None:
        """Ends all of its sessions."""
        await self.closing.aclose()
        await query(self.owner, f"SELECT pg_terminate_backend(pid, 60000) {OURS}")
