"""Creates the read models: permanent tables by numbered migrations, the others as defined, and the views."""

import re
from dataclasses import dataclass
from hashlib import sha256
from importlib import resources

from trackside.eventlog.log_id import NamedLog
from trackside.projections.database.log_identity import check_log, claim_schema, copy_claim
from trackside.projections.database.notifications import notify
from trackside.projections.database.postgres import (
    LIVE_SCHEMA,
    Connection,
    create_missing,
    execute_allowed,
    lock_tables,
    sql,
)
from trackside.projections.database.reader_sessions import lock_from_readers
from trackside.projections.database.sql_files import views
from trackside.projections.tables.owners import OWNERS
from trackside.projections.writing.definitions import NewerSchemaError, define

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema, by its file's number."""

    number: int
    name: str


def migrations() -> list[Migration]:
    """Lists the migrations in order."""
    listed = (resources.files("trackside.projections") / "migrations").iterdir()
    names = sorted(entry.name.removesuffix(".sql") for entry in listed if entry.name.endswith(".sql"))
    return [Migration(int(name[:4]), name) for name in names]


async def migrate(connection: Connection, schema: str = LIVE_SCHEMA) -> None:
    """Brings the live schema and its views to this release; one service at a time.

    Tables whose definition has changed are recreated, empty, at offset 0. To be called in a
    transaction. Raises NewerSchemaError for a schema of a later release.
    """
    await _lock_schema(connection, schema)
    made = await create_tables(connection, schema)
    digest = _digest("".join(view.statement for view in views()))
    known = await connection.fetchval("SELECT digest FROM migrations WHERE number = 0")
    present = await connection.fetchval("SELECT to_regclass('dashboards.searches') IS NOT NULL")
    if made or digest != known or not present:
        await create_views(connection, schema)
        for owner in OWNERS:
            await notify(connection, schema, owner, {}, None)


async def prepare_schema(connection: Connection, schema: str, log: NamedLog) -> None:
    """Does what `migrate` does, for rows of this log; raises AnotherLogError and TransientError, too."""
    await _lock_schema(connection, schema)  # first: who has read a table must not wait for who replaces it
    await check_log(connection, schema, log)  # before `migrate`, which may drop positions
    await migrate(connection, schema)
    await claim_schema(connection, schema, log)


async def create_tables(connection: Connection, schema: str) -> bool:
    """Creates a schema and its missing tables, and sets the search path; returns whether tables were created.

    Raises NewerSchemaError for a schema of a later release.
    """
    await _create_migrations(connection, schema)
    await connection.execute(f"SET LOCAL search_path TO {_checked(schema)}")
    done = {row["number"] for row in await connection.fetch("SELECT number FROM migrations")}
    known = migrations()
    newest = known[-1].number
    if done and max(done) > newest:
        raise NewerSchemaError(
            f"schema {schema} has migration {max(done)}, this release knows {newest}; upgrade it"
        )
    if done and max(done) < newest:
        await lock_from_readers(connection, sql("queries", "all_relations"))
    for migration in known:
        if migration.number not in done:
            text = sql("migrations", migration.name)
            await connection.execute(text)
            await _record(connection, migration.number, migration.name, text)
    return await define(connection, schema)


async def create_views(connection: Connection, schema: str) -> None:
    """Points the views of schema dashboards at a schema, and grants the reader's role nothing else."""
    found = views()
    await connection.execute("CREATE SCHEMA IF NOT EXISTS dashboards")
    await lock_from_readers(connection, sql("queries", "views"))
    for view in reversed(found):
        await connection.execute(f"DROP VIEW IF EXISTS dashboards.{view.name} CASCADE")
    await connection.execute(f"SET LOCAL search_path TO {_checked(schema)}")
    await connection.execute(sql("queries", "create_time_of"))
    for view in found:
        await connection.execute(f"CREATE VIEW dashboards.{view.name} AS\n{view.statement}")
    await _record(connection, 0, "views", "".join(view.statement for view in found))
    if await execute_allowed(connection, sql("queries", "create_reader")):
        await connection.execute(sql("queries", "grant_reader"))


async def hold_writers(connection: Connection, schema: str, within_s: float) -> bool:
    """Locks the positions of a schema for this transaction, so that writers wait; returns whether it could.

    The lock of `migrate` comes first: a service that starts takes it first, and then its positions.
    """
    names = f"{_checked(schema)}.migrations, {schema}.positions"
    return await lock_tables(connection, names, within_s, "EXCLUSIVE")


async def readers(connection: Connection) -> set[str]:
    """Returns the virtual ids of other transactions that hold a snapshot of this database."""
    return {row["virtualtransaction"] for row in await connection.fetch(sql("queries", "readers"))}


async def drop_schemas(connection: Connection, beginning: str) -> None:
    """Drops the schemas whose names begin with `beginning`: the remains of swaps that were killed."""
    await lock_from_readers(connection, sql("queries", "relations_of"), beginning)
    for row in await connection.fetch(sql("queries", "schemas"), beginning):
        await connection.execute(f"DROP SCHEMA {_checked(row['nspname'])} CASCADE")


async def swap_schemas(connection: Connection, *, live: str, fresh: str) -> None:
    """Replaces the live schema by a fresh one; no reader waits, as only names change.

    Readers of the old tables and views can finish; these are renamed to begin with `fresh`, to be dropped.
    Writers find the positions of the fresh schema: if those are theirs they continue, else they fold again
    from there. Rows written to `fresh` in this transaction are invisible to readers with an older snapshot:
    commit them first, and wait until the `readers` of that time are gone.
    """
    old, new = _checked(live), _checked(fresh)
    await copy_claim(connection, old, new)
    await connection.execute(f"ALTER SCHEMA {old} RENAME TO {_checked(f'{fresh}_old')}")
    await connection.execute(f"ALTER SCHEMA {new} RENAME TO {old}")
    if await connection.fetchval("SELECT to_regnamespace('dashboards') IS NOT NULL"):
        await connection.execute(f"ALTER SCHEMA dashboards RENAME TO {_checked(f'{fresh}_views')}")
    await create_views(connection, old)


async def _lock_schema(connection: Connection, schema: str) -> None:
    """Lets one service at a time change a schema, until the end of the transaction."""
    await _create_migrations(connection, schema)
    await connection.execute(f"LOCK TABLE {schema}.migrations IN EXCLUSIVE MODE")


async def _create_migrations(connection: Connection, schema: str) -> None:
    """Creates a schema and the table of its migrations, which is locked by who changes the schema."""
    statements = sql("queries", "create_migrations").format(schema=_checked(schema))
    await create_missing(connection, f"{schema}.migrations", statements)


async def _record(connection: Connection, number: int, name: str, text: str) -> None:
    await connection.execute(sql("queries", "put_migration"), number, name, _digest(text))


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _checked(schema: str) -> str:
    if not _NAME.fullmatch(schema):
        raise ValueError(f"schema {schema!r}: expected lower-case letters, digits and '_', at most 63")
    return schema
