"""A stack that is stopped and started while the login of dashboards holds all that it can."""

import asyncio
from contextlib import suppress
from pathlib import Path

import asyncpg
import pytest

from tests.e2e.harness import UserFolder
from tests.integration.projections.given_login import Login
from tests.integration.projections.harness import query
from tests.polling import elapse, poll_until
from trackside.embedded.folder import NAME, read_status
from trackside.embedded.postgres.server import remove_data
from trackside.eventlog.clock import monotonic_s

pytestmark = [pytest.mark.timeout(900), pytest.mark.long]
RETRY_S = 0.2
GONE = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError)


async def hold_again_and_again(login: Login, held: asyncio.Event) -> None:
    """Holds all that the login gets, again as soon as Postgres has ended some of it, until cancelled."""
    while True:
        with suppress(*GONE):
            await login.hold_all()
            held.set()
            await poll_until(login.lost_some)
        await login.closing.aclose()
        await elapse(RETRY_S)


async def test_a_stack_stops_and_starts_and_swaps_while_the_login_holds_all(
    tmp_path: Path, leash: Path
) -> None:
    folder = UserFolder(tmp_path)

    async def run(*arguments: str) -> str:
        return await asyncio.to_thread(folder.run_ok, *arguments)

    async def restart_with_other_tables() -> float:
        """Returns how long it took in seconds."""
        changed = "UPDATE trackside.definitions SET digest = ''"
        await query(read_status(folder.path / NAME).postgres_dsn, changed)
        began_s = monotonic_s()
        await run("down")
        await run("up", "--leash", str(leash))
        assert "equal" in await run("replay", "rebuild", "--swap")
        return monotonic_s() - began_s

    await run("up", "--leash", str(leash))
    try:
        usual_s = await restart_with_other_tables()
        status, held = read_status(folder.path / NAME), asyncio.Event()
        login = Login(status.reader_dsn, status.postgres_dsn)
        holding = asyncio.create_task(hold_again_and_again(login, held))
        await held.wait()
        assert await restart_with_other_tables() < 2 * usual_s + 30
        holding.cancel()
        await login.closing.aclose()
    finally:
        await run("down")
        remove_data(folder.path / NAME / "postgres")
