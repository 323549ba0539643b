"""The login of dashboards: it reads the views of schema dashboards, and nothing else.

What it may do rests on grants, and on `reader_sessions`, never on settings that a session may change.
"""

import base64
import hashlib
import hmac
import secrets

from trackside.projections.database.postgres import Connection, execute_allowed, sql
from trackside.projections.database.settings import READER

ITERATIONS = 4096
"""Postgres's own default; clients written in Go log in to no server that asks for fewer."""


class LoginRefusedError(Exception):
    """Postgres does not permit this user to create the login; the message says who can."""


def scram_verifier(password: str, salt: bytes) -> str:
    """Returns what Postgres stores of a password (RFC 5803, SCRAM-SHA-256): the password is sent nowhere."""
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, ITERATIONS)
    client = hmac.digest(salted, b"Client Key", "sha256")
    keys = (hashlib.sha256(client).digest(), hmac.digest(salted, b"Server Key", "sha256"))
    stored, server = (base64.b64encode(key).decode() for key in keys)
    return f"SCRAM-SHA-256${ITERATIONS}:{base64.b64encode(salt).decode()}${stored}:{server}"


async def excess_of_login(connection: Connection) -> list[str]:
    """Returns what the login can do beyond reading the views, since this user may not take it away."""
    return [row["what"] for row in await connection.fetch(sql("queries", "login_excess"), READER)]


async def ensure_login(connection: Connection, password: str) -> None:
    """Creates the login in this transaction, or gives it this password, once the views are there.

    Raises LoginRefusedError if this user may not.
    """
    verifier = scram_verifier(password, secrets.token_bytes(16))
    await connection.fetchval("SELECT set_config('trackside.reader_verifier', $1, true)", verifier)
    if await execute_allowed(connection, sql("queries", "ensure_login")):
        await connection.execute(sql("queries", "limit_login"))
    else:
        raise LoginRefusedError(
            f"Postgres does not permit this user to create the login {READER}: have an administrator of the "
            f"server run `CREATE ROLE {READER} LOGIN PASSWORD '...' IN ROLE trackside_reader`, and unset "
            "TRACKSIDE_READER_PASSWORD_FILE"
        )
