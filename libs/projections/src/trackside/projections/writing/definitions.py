"""Tables whose rows come from the log alone: recreated and refilled when a release changes their definition.

The definitions are `definitions/<owner>.sql` and the `tables.sql` of each aggregate. All that is written
into these tables can be folded from offset 0, so a change needs no migration: tables are dropped with their
positions, and the owner's runner then folds the log from its start. Tables with rows of topics with limited
retention are different: numbered migrations create and change these.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from trackside.contracts.streams.commands import RULES
from trackside.projections.database.postgres import Connection, sql
from trackside.projections.database.reader_sessions import lock_from_readers
from trackside.projections.database.sql_files import aggregate_tables
from trackside.projections.tables.owners import DISPATCHER, OWNERS, SCHEDULER
from trackside.projections.writing.snapshots import FOLD_VERSION, SNAPSHOT_TABLES, events_name
from trackside.telemetry.logs import logger

GENERATIONS: Mapping[str, int] = {DISPATCHER: 24, SCHEDULER: 21}
"""Raise one when its owner's definitions, the fold, the types of events, or how a row is computed change."""
log = logger("trackside.projections")


class NewerSchemaError(Exception):
    """The read models were created by a newer release."""


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of an owner's tables: the statements, and what distinguishes two releases."""

    owner: str
    generation: int
    statements: str
    tables: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Returns a digest of what the rows depend on: SQL, generation and fold."""
        text = f"{self.generation}.{RULES}.{FOLD_VERSION}.{events_name()}\n{self.statements}"
        return sha256(text.encode()).hexdigest()


def definitions() -> list[Definition]:
    """Returns the definitions of this release, by owner."""
    found = []
    for name, generation in GENERATIONS.items():
        owner = OWNERS[name]
        tables = (table.name for table in owner.tables)
        snapshots = SNAPSHOT_TABLES if owner.keeps_snapshots else ()
        statements = sql("definitions", name) + (aggregate_tables() if owner.keeps_snapshots else "")
        found.append(Definition(name, generation, statements, (*tables, *snapshots)))
    return found


async def define(connection: Connection, schema: str) -> bool:
    """Creates the tables that are missing or have another definition; returns whether there were any.

    To be called in a transaction with the schema as its search path, by one service at a time. Raises
    NewerSchemaError, and changes nothing, if a later release has created one of them.
    """
    known = {row["owner"]: row for row in await connection.fetch(sql("queries", "definitions"))}
    for wanted in definitions():
        found = known.get(wanted.owner)
        if found is not None and found["generation"] > wanted.generation:
            raise NewerSchemaError(
                f"schema {schema} has the {wanted.owner}'s tables in generation {found['generation']}, "
                f"this release knows {wanted.generation}; upgrade it"
            )
    changed = [
        wanted
        for wanted in definitions()
        if wanted.owner not in known or known[wanted.owner]["digest"] != wanted.digest
    ]
    if not changed:
        return False
    replaced = {name for wanted in changed for name in (*wanted.tables, *_former_tables(known, wanted))}
    # Writers take their positions first, then tables; in another order each could wait for the other.
    await connection.execute("LOCK TABLE positions IN EXCLUSIVE MODE")
    await lock_from_readers(connection, sql("queries", "relations"), sorted(replaced))
    await connection.execute(f"DROP TABLE IF EXISTS {', '.join(sorted(replaced))} CASCADE")
    for wanted in changed:
        await _create(connection, wanted)
    return True


def _former_tables(known: Mapping[str, Any], wanted: Definition) -> list[str]:
    return known[wanted.owner]["tables"] if wanted.owner in known else []


async def _create(connection: Connection, wanted: Definition) -> None:
    forgotten = await connection.execute(sql("queries", "forget_positions"), wanted.owner)
    await connection.execute(wanted.statements)
    row = (wanted.owner, wanted.generation, wanted.digest, list(wanted.tables))
    await connection.execute(sql("queries", "put_definition"), *row)
    if forgotten != "DELETE 0":
        log.warning(
            "the definition of these read models has changed; rebuilding them from the log",
            owner=wanted.owner,
            generation=wanted.generation,
        )
