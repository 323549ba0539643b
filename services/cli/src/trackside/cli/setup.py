"""Makes an installation ready for its services: topics and read models. `python -m trackside.cli.setup`."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from trackside.eventlog.acls import installation_acls
from trackside.eventlog.errors import PreflightError, TransientError
from trackside.eventlog.installation_keys import AnotherKeyError, set_up_keys
from trackside.eventlog.kafka import KafkaLog
from trackside.eventlog.kafka_acls import apply_acls
from trackside.eventlog.key_folder import BadKeyFileError, KeyFolder
from trackside.eventlog.log_id import AnotherLogError, log_id_of
from trackside.eventlog.password_file import read_password
from trackside.eventlog.retry import retry_with_timeout
from trackside.eventlog.settings import StackSettings, read_settings
from trackside.projections.definitions import NewerSchemaError
from trackside.projections.log_identity import claim_schema
from trackside.projections.migrate import migrate
from trackside.projections.postgres import LIVE_SCHEMA, Connection, PostgresGoneError, database
from trackside.projections.reader_login import LoginRefusedError, ensure_login, excess_of_login
from trackside.projections.settings import READER, ReaderSettings

DESCRIPTION = "Creates the topics and the read models that are missing, and checks those that are there."
PATIENCE_S = 30.0
EXCESS = (
    f"the login {READER} can do more than read, and this user of Postgres may not take it away: {{what}}; "
    'have an administrator of the server run the lines of docs/security.md, "The login of dashboards"'
)
FAILURES = (
    TransientError,
    PreflightError,
    PostgresGoneError,
    NewerSchemaError,
    AnotherLogError,
    LoginRefusedError,
    AnotherKeyError,
    BadKeyFileError,
)


async def prepare(
    settings: StackSettings, patience_s: float = PATIENCE_S, reader_password: str = ""
) -> list[str]:
    """Creates the topics and tables that are missing, and checks the topics that were there.

    Waits `patience_s` seconds for Kafka. With `reader_password` it creates the login of dashboards too.
    Returns what that login can do beyond reading the views.
    Raises TransientError, PreflightError, PostgresGoneError, NewerSchemaError, AnotherLogError or
    LoginRefusedError.
    """
    log_id = await prepare_topics(settings, patience_s)

    async def tables(connection: Connection) -> list[str]:
        await migrate(connection)
        await claim_schema(connection, LIVE_SCHEMA, log_id)
        if reader_password:
            await ensure_login(connection, reader_password)
        return await excess_of_login(connection)

    async with database(settings.postgres_dsn) as opened:
        opened.limit_s = None  # a migration may count all points
        return await opened.transaction(tables)


async def prepare_topics(settings: StackSettings, patience_s: float = PATIENCE_S) -> str:
    """Creates the topics that are missing, and checks those that were there; returns the id of the log.

    Raises TransientError or PreflightError.
    """
    async with KafkaLog(settings, client_id="trackside-setup") as log:
        # Again for a while: a broker that stood still for a moment makes no topics in the next.
        await retry_with_timeout(partial(_topics, log, settings), "all", patience_s)
        return await log_id_of(log, settings.topics)


async def _topics(log: KafkaLog, settings: StackSettings) -> None:
    await log.ensure(settings.topics.shared)
    await log.preflight(settings.topics.shared)


async def _keys(settings: StackSettings, folder: Path, workers: Sequence[str]) -> None:
    """Makes the keys that services and workers sign with, and requires signatures from the first event on."""
    async with KafkaLog(settings, client_id="trackside-setup") as log:
        await set_up_keys(log, settings.topics, KeyFolder(folder), workers, require=True)


def main() -> int:
    """Prepares what the settings name; exit 1 with the reason if that fails."""
    options = _options(sys.argv[1:])
    settings, reader = read_settings(StackSettings), read_settings(ReaderSettings)
    try:
        if options.acls:
            wanted = installation_acls(settings.topics, options.worker)
            asyncio.run(retry_with_timeout(partial(apply_acls, settings, wanted), "all", options.wait_s))
        if options.topics:
            asyncio.run(prepare_topics(settings, options.wait_s))
        else:
            password = _password(reader.reader_password_file)
            if excess := asyncio.run(prepare(settings, options.wait_s, password)):
                sys.stderr.write(f"setup: warning: {EXCESS.format(what=', '.join(excess))}\n")
        if options.keys is not None:
            asyncio.run(_keys(settings, options.keys, options.worker))
    except FAILURES as error:
        sys.stderr.write(f"setup: {error}\n")
        return 1
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m trackside.cli.setup", description=DESCRIPTION, allow_abbrev=False
    )
    parser.add_argument(
        "--topics", action="store_true", help="prepare the topics only: Postgres is not needed"
    )
    parser.add_argument("--acls", action="store_true", help="add the ACLs that are missing, too")
    parser.add_argument(
        "--worker", action="append", default=[], metavar="ID", help="id of a worker that has ACLs, and a key"
    )
    parser.add_argument(
        "--keys",
        type=Path,
        metavar="DIR",
        help="folder with the keys of events: those that are missing are made, and signatures are required",
    )
    parser.add_argument(
        "--wait-s", type=float, default=PATIENCE_S, help="how long to wait for Kafka, s (%(default)s)"
    )
    return parser.parse_args(arguments)


def _password(name: str) -> str:
    """Returns the password in a file, "" if none is named; LoginRefusedError if it has none."""
    if not name:
        return ""
    try:
        return read_password(Path(name))
    except ValueError as error:
        raise LoginRefusedError(f"TRACKSIDE_READER_PASSWORD_FILE: {name}: {error}") from error


if __name__ == "__main__":
    sys.exit(main())
