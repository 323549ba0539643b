"""Which log the read models come from: written down with them, so that rows of two logs are never mixed.

It is a comment on their schema: it needs no table, is in every dump, and an earlier release ignores it.
"""

import asyncio
from contextlib import suppress
from functools import partial

from trackside.eventlog.errors import AnotherLogError, TransientError
from trackside.eventlog.log import TopicPartition
from trackside.eventlog.log_id import NamedLog, named_log
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.eventlog.retry import RETRY_S
from trackside.projections.database.postgres import LIVE_SCHEMA, Connection, database, execute_allowed, sql

BEGINNING = "Trackside read models of the log "


async def check_log(connection: Connection, schema: str, log: NamedLog) -> None:
    """Raises AnotherLogError if a schema has rows of another log, or of records that this log does not have.

    Rows that nothing was folded into yet are of any log. Raises TransientError.
    """
    positions = await _positions(connection, schema)
    if not positions:
        return
    place = f"(database {await connection.fetchval('SELECT current_database()')}, schema {schema})"
    known = await _known(connection, schema)
    if known is not None and known != log.name:
        raise AnotherLogError(
            f"the read models in Postgres {place} are of the log {known}, but this log is {log.name}: "
            f"{_advice(schema, f'if {log.name} replaces {known} for good')}"
        )
    ends = await log.ends()  # after the positions, which only grow up to them
    for (topic, partition), position in positions.items():
        end = ends.get((topic, partition), position)
        if end < position:
            raise AnotherLogError(
                f"the read models in Postgres {place} have rows up to {position} of {topic}-{partition}, but "
                f"that ends at {end}: this log has lost records, or the rows are not of this log; put the "
                f"log back, or {_advice(schema, 'if this log is right')}"
            )


async def check_rows(service: ServiceContext) -> None:
    """Does so for a service that writes no rows, once both servers answer; raises AnotherLogError."""
    async with database(service.settings.postgres_dsn) as opened:
        while True:
            with suppress(TransientError):
                log = await named_log(service.log, service.topics)
                check = partial(check_log, schema=LIVE_SCHEMA, log=log)
                return await opened.commit_with_retries(check, lambda _reason: None)
            await asyncio.sleep(RETRY_S)


def _advice(schema: str, condition: str) -> str:
    return (
        "set TRACKSIDE_KAFKA_BOOTSTRAP and TRACKSIDE_POSTGRES_DSN to servers of one installation; "
        f"{condition}, drop the schemas {schema} and dashboards (of `trackside up`: remove "
        ".trackside/postgres), and the rows are made again"
    )


async def claim_schema(connection: Connection, schema: str, log: NamedLog) -> None:
    """Writes down that a schema's rows come from this log, which `check_log` has found in this transaction.

    Its lock lets one service at a time in.
    """
    if await _known(connection, schema) != log.name:
        await _write(connection, schema, log.name)


async def copy_claim(connection: Connection, live: str, fresh: str) -> None:
    """Writes into a schema that takes the live one's place which log that came from."""
    known = await _known(connection, live)
    if known is not None:
        await _write(connection, fresh, known)


async def _positions(connection: Connection, schema: str) -> dict[TopicPartition, int]:
    """Returns the highest position of each partition of which there are rows."""
    if not await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", f"{schema}.positions"):
        return {}
    found = await connection.fetch(sql("queries", "highest_positions").format(schema=schema))
    return {(row["topic"], row["partition"]): row["position"] for row in found}


async def _known(connection: Connection, schema: str) -> str | None:
    text: str | None = await connection.fetchval(sql("queries", "schema_comment"), schema)
    return text.removeprefix(BEGINNING) if text is not None and text.startswith(BEGINNING) else None


async def _write(connection: Connection, schema: str, name: str) -> None:
    """Only the owner of the schema may write it; without it, rows are not protected."""
    statement = "SELECT format('COMMENT ON SCHEMA %I IS %L', $1::text, $2::text)"
    await execute_allowed(connection, await connection.fetchval(statement, schema, f"{BEGINNING}{name}"))
