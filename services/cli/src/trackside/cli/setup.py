"""Makes an installation ready for its services: topics and read models. `python -m trackside.cli.setup`."""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from trackside.contracts.envelope.topics import Topics
from trackside.eventlog.errors import AnotherLogError, PreflightError, TransientError
from trackside.eventlog.kafka.acls import installation_acls
from trackside.eventlog.kafka.kafka_acls import apply_acls
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.keys.installation_keys import AnotherKeyError, set_up_keys
from trackside.eventlog.keys.key_folder import BadKeyFileError, KeyFolder
from trackside.eventlog.log_id import begin_log, named_log
from trackside.eventlog.retry import retry_with_timeout
from trackside.eventlog.settings.password_file import read_password
from trackside.eventlog.settings.settings import StackSettings, read_settings
from trackside.projections.database.postgres import LIVE_SCHEMA, Connection, PostgresGoneError, database
from trackside.projections.database.reader_login import LoginRefusedError, ensure_login, excess_of_login
from trackside.projections.database.settings import READER, ReaderSettings
from trackside.projections.writing.definitions import NewerSchemaError
from trackside.projections.writing.migrate import prepare_schema

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
    topics = settings.topics
    async with prepared_log(settings, patience_s) as log, database(settings.postgres_dsn) as opened:
        named = await named_log(log, topics, topics.metrics, topics.dead_letters)

        async def tables(connection: Connection) -> list[str]:
            await prepare_schema(connection, LIVE_SCHEMA, named)
            if reader_password:
                await ensure_login(connection, reader_password)
            return await excess_of_login(connection)

        opened.limit_s = None  # a migration may count all points
        return await opened.transaction(tables)


@asynccontextmanager
async def prepared_log(settings: StackSettings, patience_s: float = PATIENCE_S) -> AsyncIterator[KafkaLog]:
    """Creates the topics that are missing, and checks those that were there; yields the log, which has begun.

    Raises TransientError or PreflightError.
    """
    async with KafkaLog(settings, client_id="trackside-setup") as log:
        # Again for a while: a broker that stood still for a moment makes no topics in the next.
        await retry_with_timeout(partial(_topics, log, settings.topics), "all", patience_s)
        yield log


async def _topics(log: KafkaLog, topics: Topics) -> None:
    """Creates the topic with the first record, then the others: no service starts before all are there."""
    await log.ensure([topics.fleet])
    await log.preflight([topics.fleet])
    await begin_log(log, topics)
    await log.ensure(topics.shared)
    await log.preflight(topics.shared)


async def _prepare_topics(settings: StackSettings, patience_s: float) -> None:
    async with prepared_log(settings, patience_s):
        pass


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
            asyncio.run(_prepare_topics(settings, options.wait_s))
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
