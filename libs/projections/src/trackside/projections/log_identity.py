"""Which log the read models come from: written down with them, so that rows of two logs are never mixed.

It is a comment on their schema: it needs no table, is in every dump, and an earlier release ignores it.
"""

from trackside.eventlog.log_id import AnotherLogError
from trackside.projections.postgres import Connection, execute_allowed, sql

BEGINNING = "Trackside read models of the log "


async def check_log(connection: Connection, schema: str, log_id: str) -> None:
    """Raises AnotherLogError, with both names, if a schema's rows are known to come from another log."""
    known = await _known(connection, schema)
    if known is not None and known != log_id:
        database = await connection.fetchval("SELECT current_database()")
        raise AnotherLogError(
            f"the read models in Postgres (database {database}, schema {schema}) are of the log {known}, but "
            f"this log is {log_id}: set TRACKSIDE_KAFKA_BOOTSTRAP and TRACKSIDE_POSTGRES_DSN to servers of "
            f"one installation; if {log_id} replaces {known} for good, drop the schemas {schema} and "
            "dashboards (of `trackside up`: remove .trackside/postgres), and the rows are made again"
        )


async def claim_schema(connection: Connection, schema: str, log_id: str) -> None:
    """Writes down that a schema's rows come from this log; raises AnotherLogError if they don't.

    To be called in the transaction of `migrate`, whose lock lets one service at a time in.
    """
    await check_log(connection, schema, log_id)
    if await _known(connection, schema) is None:
        await _write(connection, schema, log_id)


async def copy_claim(connection: Connection, live: str, fresh: str) -> None:
    """Writes into a schema that takes the live one's place which log that came from."""
    known = await _known(connection, live)
    if known is not None:
        await _write(connection, fresh, known)


async def _known(connection: Connection, schema: str) -> str | None:
    text: str | None = await connection.fetchval(sql("queries", "schema_comment"), schema)
    return text.removeprefix(BEGINNING) if text is not None and text.startswith(BEGINNING) else None


async def _write(connection: Connection, schema: str, log_id: str) -> None:
    """Only the owner of the schema may write it; without it, rows are not protected."""
    statement = "SELECT format('COMMENT ON SCHEMA %I IS %L', $1::text, $2::text)"
    await execute_allowed(connection, await connection.fetchval(statement, schema, f"{BEGINNING}{log_id}"))
