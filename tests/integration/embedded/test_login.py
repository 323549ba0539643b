"""Standard clients log in to the embedded Postgres, whichever release created its data."""

from pathlib import Path

import asyncpg

from trackside.embedded import stack
from trackside.embedded.folder import read_plan
from trackside.embedded.options import StackOptions
from trackside.embedded.postgres.server import remove_data

OPTIONS = StackOptions(bootstrap_servers="127.0.0.1:1", durable=False)
FEWEST_DIGITS = 4
"""lib/pq takes an iteration count of fewer digits for a malformed message."""


async def iterations(dsn: str) -> int:
    """Returns the iteration count of the verifier that is stored for the user of the DSN."""
    connection = await asyncpg.connect(dsn)
    stored = await connection.fetchval("SELECT rolpassword FROM pg_authid WHERE rolname = current_user")
    await connection.close()
    return int(stored.split("$")[1].partition(":")[0])


async def weaken(running: stack.Stack) -> None:
    """Makes a cluster as earlier releases did: with 64 iterations, in its settings and in its verifier."""
    password = running.postgres_dsn.partition("://trackside:")[2].partition("@")[0]
    connection = await asyncpg.connect(running.postgres_dsn)
    await connection.execute("SET scram_iterations = 64")
    await connection.execute(f"ALTER ROLE trackside PASSWORD '{password}'")
    await connection.execute("CREATE TABLE kept AS SELECT 7 AS value")
    await connection.close()
    (server,) = [each for each in read_plan(running.folder).processes if each.name == "postgres"]
    with (Path(server.data or "") / "postgresql.conf").open("a") as settings:
        settings.write("scram_iterations = 64\t\t# (change requires restart)\n")


async def test_a_password_of_an_earlier_release_gets_a_verifier_that_standard_clients_accept(
    tmp_path: Path,
) -> None:
    home = tmp_path / ".trackside"
    try:
        made = stack.start(home, OPTIONS)
        assert len(str(await iterations(made.postgres_dsn))) >= FEWEST_DIGITS
        await weaken(made)
        assert await iterations(made.postgres_dsn) == 64
        stack.stop(home)
        again = stack.start(home, OPTIONS)
        assert await iterations(again.postgres_dsn) == 4096
        connection = await asyncpg.connect(again.postgres_dsn)
        assert await connection.fetchval("SELECT value FROM kept") == 7
        assert await connection.fetchval("SHOW scram_iterations") == "4096"
        await connection.close()
    finally:
        stack.stop(home)
        remove_data(home / "postgres")
