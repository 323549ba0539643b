"""Makes an installation ready for its services: topics and read models. `python -m trackside.cli.setup`."""

import asyncio
import sys
from functools import partial

from trackside.eventlog.errors import PreflightError, TransientError
from trackside.eventlog.kafka import KafkaLog
from trackside.eventlog.retry import retry_with_timeout
from trackside.eventlog.settings import StackSettings, read_settings
from trackside.projections.definitions import NewerSchemaError
from trackside.projections.log_identity import AnotherLogError, claim_schema, log_id_of
from trackside.projections.migrate import migrate
from trackside.projections.postgres import LIVE_SCHEMA, Connection, PostgresGoneError, database

PATIENCE_S = 30.0


async def prepare(settings: StackSettings) -> None:
    """Creates the topics and tables that are missing, and checks the topics that were there.

    Raises TransientError, PreflightError, PostgresGoneError, NewerSchemaError or AnotherLogError.
    """
    async with KafkaLog(settings.kafka_bootstrap, client_id="trackside-setup") as log:
        # Again for a while: a broker that stood still for a moment makes no topics in the next.
        await retry_with_timeout(partial(_topics, log, settings), "all", PATIENCE_S)
        log_id = await log_id_of(log, settings.topics)

    async def tables(connection: Connection) -> None:
        await migrate(connection)
        await claim_schema(connection, LIVE_SCHEMA, log_id)

    async with database(settings.postgres_dsn) as opened:
        opened.limit_s = None  # a migration may count all points
        await opened.transaction(tables)


async def _topics(log: KafkaLog, settings: StackSettings) -> None:
    await log.ensure(settings.topics.shared)
    await log.preflight(settings.topics.shared)


def main() -> int:
    """Prepares what the settings name; exit 1 with the reason if that fails."""
    settings = read_settings(StackSettings)
    try:
        asyncio.run(prepare(settings))
    except (TransientError, PreflightError, PostgresGoneError, NewerSchemaError, AnotherLogError) as error:
        sys.stderr.write(f"setup: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
