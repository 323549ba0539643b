"""Recorded logs give the rows and views they gave, and a rebuild of them the same again.

`rows.json` has a digest of each table and view that has rows. A row that is computed otherwise wants a higher
generation, so that a release rebuilds what an older one has written: raise `definitions.GENERATIONS` (and
`FOLD_VERSION`, if states change), then write the digests with `TRACKSIDE_WRITE_HISTORIES=1`. With
`TRACKSIDE_ROWS=FOLDER` the rows themselves are written, to compare those of two commits.
"""

import asyncio
import json
import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import asyncpg
import pytest

from tests.histories.recorded import FOLDER, History, names, read
from tests.integration.projections.harness import FAST_PACE, RunningProjections, service_on, write_points
from trackside.contracts.streams.commands import RULES
from trackside.contracts.wire.codec import UndecodableError
from trackside.eventlog.memory import MemoryLog
from trackside.projections.database.postgres import LIVE_SCHEMA
from trackside.projections.tables.owners import OWNERS
from trackside.projections.writing.definitions import GENERATIONS
from trackside.projections.writing.runner import run_projection
from trackside.projections.writing.snapshots import FOLD_VERSION, SNAPSHOT_TABLES
from trackside.replay.rebuild.rebuild import rebuild
from trackside.summary_indexer.validation import decode_summaries

DIGESTS = FOLDER / "rows.json"
WRITE = bool(os.environ.get("TRACKSIDE_WRITE_HISTORIES"))
NOT_ROWS = {*SNAPSHOT_TABLES, "positions", "definitions", "migrations"}
RELATIONS = """
SELECT nspname, relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname IN ($1, 'dashboards') AND relkind IN ('r', 'p', 'v') AND NOT relispartition ORDER BY 1, 2
"""
Json = dict[str, str]


async def rows_of(dsn: str) -> dict[str, list[str]]:
    """Returns the rows of all tables and views that have some, as Postgres writes them, in one order."""
    connection = await asyncpg.connect(dsn, server_settings={"search_path": f"{LIVE_SCHEMA},dashboards"})
    try:
        found = {}
        for schema, relation in await connection.fetch(RELATIONS, LIVE_SCHEMA):
            if relation in NOT_ROWS:
                continue
            rows = await connection.fetch(f"SELECT r::text FROM {schema}.{relation} r")  # noqa: S608 - of the catalogue
            if rows:
                found[f"{schema}.{relation}"] = sorted(row[0] for row in rows)
        return found
    finally:
        await connection.close()


def keep(name: str, rows: dict[str, list[str]]) -> None:
    """Writes the rows of a history to the folder that the environment names."""
    if folder := os.environ.get("TRACKSIDE_ROWS"):
        lines = [f"{relation}: {row}\n" for relation in sorted(rows) for row in rows[relation]]
        Path(folder).mkdir(parents=True, exist_ok=True)
        Path(folder, f"{name}.txt").write_text("".join(lines), "utf-8")


def versions() -> str:
    found = {**GENERATIONS, "fold": FOLD_VERSION, "rules": RULES}
    return ", ".join(f"{name} {number}" for name, number in found.items())


def expected(name: str, found: Json) -> Json:
    """Returns the digests that a history had; first writes them, if they are to be written."""
    known = json.loads(DIGESTS.read_text("utf-8"))
    if WRITE:
        was = known.get(name, {"versions": "", "digests": {}})
        changed = was["digests"] != found and was["versions"] == versions()
        assert not changed, f"{name} has other rows: raise the generation of their owner"
        known[name] = {"versions": versions(), "digests": found}
        DIGESTS.write_text(json.dumps(known, sort_keys=True, indent=1) + "\n", "utf-8")
    digests: Json = known[name]["digests"]
    return digests


async def write_rows(history: History, dsn: str) -> None:
    """Writes all rows of a history to an empty database, and compares them with those of a rebuild."""
    log, topics = MemoryLog(history.clock()), history.topics
    await history.append_to(log)
    running = RunningProjections(log, dsn, tuple(OWNERS), topics)
    services = {owner: service_on(log, dsn, topics) for owner in OWNERS}
    work = [
        run_projection(owner, service, pace=FAST_PACE, on_written=running.on_written)
        for owner, service in services.items()
    ]
    async with asyncio.TaskGroup() as group:
        for each in work:
            group.create_task(each)
        await running.caught_up()
        for service in services.values():
            service.stop.set()
    report = await rebuild(log, topics, dsn)
    assert report.equal, str(report)
    for entry in history.entries:  # rows of metrics have a writer of their own
        if entry.topic == topics.metrics.name:
            with suppress(UndecodableError):
                await write_points(dsn, decode_summaries(entry))


@pytest.mark.parametrize("name", names())
async def test_a_recorded_log_gives_the_rows_it_gave(tables: str, name: str) -> None:
    await write_rows(read(name), tables)
    rows = await rows_of(tables)
    keep(name, rows)
    digests = {relation: sha256("\n".join(rows[relation]).encode()).hexdigest()[:16] for relation in rows}
    assert digests == expected(name, digests)


def test_the_digests_are_of_the_generations_of_this_release() -> None:
    known = json.loads(DIGESTS.read_text("utf-8"))
    assert {name: each["versions"] for name, each in known.items()} == dict.fromkeys(names(), versions())
