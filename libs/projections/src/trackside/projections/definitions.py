"""Tables whose rows come from the log alone: made anew, and filled again, where another release defined them.

The definitions are `definitions/<owner>.sql`. All that is written into these tables can be folded from offset
0, so a change needs no migration: tables are dropped with their positions, and the owner's runner, which then
finds that it has written nothing, folds the log from its start. Tables with rows of topics that may forget
are not among them: numbered migrations make and change these.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from trackside.contracts.commands import RULES
from trackside.projections.owners import DISPATCHER, OWNERS, SCHEDULER
from trackside.projections.postgres import Connection, lock_tables, sql
from trackside.projections.snapshots import FOLD_VERSION, SNAPSHOT_TABLES
from trackside.telemetry.logs import logger

GENERATIONS: Mapping[str, int] = {DISPATCHER: 1, SCHEDULER: 1}
"""To be raised with an owner's definitions, with the fold, and when a row is computed otherwise."""
READER_WAIT_S, READER_PAUSE_S = 0.1, 0.02
log = logger("trackside.projections")


class NewerSchemaError(Exception):
    """The read models were made by a newer release."""


@dataclass(frozen=True, slots=True)
class Definition:
    """What makes an owner's tables: statements, and what tells those of two releases apart."""

    owner: str
    generation: int
    statements: str
    tables: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Gives a digest of what rows depend on, as far as a release says it: SQL, generation and fold."""
        text = f"{self.generation}.{RULES}.{FOLD_VERSION}\n{self.statements}"
        return sha256(text.encode()).hexdigest()


def definitions() -> list[Definition]:
    """Gives the definitions of this release, by owner."""
    found = []
    for name, generation in GENERATIONS.items():
        owner = OWNERS[name]
        tables = (table.name for table in owner.tables)
        snapshots = SNAPSHOT_TABLES if owner.keeps_snapshots else ()
        found.append(Definition(name, generation, sql("definitions", name), (*tables, *snapshots)))
    return found


async def define(connection: Connection, schema: str) -> bool:
    """Makes the tables that are missing or were defined otherwise; says whether there were any.

    To be called in a transaction that sees the schema first, by one service at a time. Raises
    NewerSchemaError, and changes nothing, if a later release has made one of them.
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
    doomed = {name for wanted in changed for name in (*wanted.tables, *_tables_before(known, wanted))}
    # Writers take their positions first, then tables; in another order each could wait for the other.
    await connection.execute("LOCK TABLE positions IN EXCLUSIVE MODE")
    await _hold_readers(connection, sorted(doomed))
    await connection.execute(f"DROP TABLE IF EXISTS {', '.join(sorted(doomed))} CASCADE")
    for wanted in changed:
        await _make(connection, wanted)
    return True


def _tables_before(known: Mapping[str, Any], wanted: Definition) -> list[str]:
    return known[wanted.owner]["tables"] if wanted.owner in known else []


async def _hold_readers(connection: Connection, tables: list[str]) -> None:
    """Takes all that dashboards read, or nothing: a reader that waits for a part of it is soon let go on.

    So Postgres finds no ring of waiting, which it would cut at either end after a second.
    """
    names = [row[0] for row in await connection.fetch(sql("queries", "relations"), tables)]
    while names:
        if await lock_tables(connection, ", ".join(names), READER_WAIT_S, "ACCESS EXCLUSIVE"):
            return
        await asyncio.sleep(READER_PAUSE_S)


async def _make(connection: Connection, wanted: Definition) -> None:
    forgotten = await connection.execute(sql("queries", "forget_positions"), wanted.owner)
    await connection.execute(wanted.statements)
    row = (wanted.owner, wanted.generation, wanted.digest, list(wanted.tables))
    await connection.execute(sql("queries", "put_definition"), *row)
    if forgotten != "DELETE 0":
        log.warning(
            "another release defined these read models otherwise; making them anew from the log",
            owner=wanted.owner,
            generation=wanted.generation,
        )
