"""Tables that another release made: a start makes them anew, and keeps what the log may have forgotten."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import asyncpg
import pytest
from structlog.testing import capture_logs

from tests.integration.projections.harness import (
    TOPICS,
    Written,
    all_rows,
    insert,
    is_behind,
    query,
    running_projections,
    service_on,
)
from tests.integration.replay.test_swap import watched
from tests.stack import Servers
from tests.unit.projections.given import write_small_history
from trackside.contracts.envelope.topics import Topics
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.memory import MemoryLog
from trackside.projections.database.postgres import database as opened_database
from trackside.projections.tables.owners import OWNERS as OWNED
from trackside.projections.writing import definitions
from trackside.projections.writing.definitions import NewerSchemaError
from trackside.projections.writing.migrate import migrate
from trackside.projections.writing.peaks import newest_peaks
from trackside.projections.writing.runner import Pace, run_projection
from trackside.projections.writing.snapshots import PostgresSnapshots
from trackside.replay.rebuild.rebuild import rebuild

FIRST_RELEASE = Path(__file__).with_name("first_release.sql").read_text("utf-8")
OWNERS = ("dispatcher", "scheduler", "summary-indexer")
TOTAL = (42, 1, 1, 1, 0.5, None, 0.5, 0.5, Decimal("0.5"), 0, 1000, 1000)
KEPT = {
    "metric_series": [(42, "gone", "gone.0", 1, "loss", "scalar")],
    "metric_points": [(42, 1, 1000, 0.5, None)],
    "metric_totals": [(*TOTAL, "gone.0", 1, "loss", "scalar", True, 0.5)],
    "summary_briefs": [("gone.0", "gone", 1, 0, 1, 1000, 1000)],
    "dead_letters": [(0, 3, "trackside.commands", 0, 9, "not_json", "no", "dispatcher", "", "", 1000)],
}


async def of_the_first_release(dsn: str, positions: dict[tuple[str, str, int], int]) -> None:
    """Makes what the first release made, whose services had come to the end of the log."""
    connection = await asyncpg.connect(dsn)
    await connection.execute(FIRST_RELEASE)
    await connection.close()
    rows = [(*place, at) for place, at in positions.items()]
    await insert(dsn, "INSERT INTO positions VALUES ($1, $2, $3, $4)", rows)


async def ends(log: KafkaLog, topics: Topics) -> dict[tuple[str, str, int], int]:
    """Returns the positions of dispatcher and scheduler that have folded everything."""
    return {
        (owner, topic.name, partition): end
        for owner in ("dispatcher", "scheduler")
        for topic in OWNED[owner].topics(topics)
        for partition, end in (await log.ends(topic.name)).items()
    }


@contextmanager
def a_later_release() -> Iterator[None]:
    """Lets the block be of a release that defines the tables otherwise."""
    later = {owner: generation + 1 for owner, generation in definitions.GENERATIONS.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(definitions, "GENERATIONS", later)
        yield


async def made_anew(dsn: str) -> bool:
    """Returns whether the tables are of this release; before, the positions are those of another release."""
    wanted = sorted(definitions.GENERATIONS.items())
    try:
        return await query(dsn, "SELECT owner, generation FROM definitions ORDER BY 1") == wanted
    except asyncpg.UndefinedTableError:
        return False


async def migrated(dsn: str) -> None:
    async with opened_database(dsn) as opened:
        await opened.transaction(migrate)


async def test_a_start_after_an_upgrade_makes_the_tables_anew_from_the_log(
    stack: Servers, topic_prefix: str, database: str
) -> None:
    topics = Topics(prefix=topic_prefix, event_partitions=3)
    async with KafkaLog(stack.kafka_bootstrap, client_id="upgrade-test") as log:
        await write_small_history(log, topics)
        await of_the_first_release(database, await ends(log, topics))
        for table in ("metric_series", "metric_points", "dead_letters"):
            await query(database, f"DELETE FROM {table}")  # noqa: S608 - else more is there than in the log
        async with running_projections(log, database, *OWNERS, topics=topics) as rows:
            await rows.until(lambda: made_anew(database))
            await rows.caught_up()
        report = await rebuild(log, topics, database)
        assert report.equal, str(report)
    assert len(await query(database, "SELECT * FROM dashboards.trials")) == 12
    assert await query(database, "SELECT * FROM tasks WHERE stream_id = 'gone'") == []


@pytest.mark.long
async def test_services_that_start_together_make_old_tables_anew_once(database: str) -> None:
    await of_the_first_release(database, {(owner, "some", 0): 99 for owner in OWNERS})
    with capture_logs() as lines:
        await asyncio.gather(*(migrated(database) for _ in range(4)))
    assert [(line["owner"], line["generation"]) for line in lines] == list(definitions.GENERATIONS.items())
    assert await query(database, "SELECT owner, position FROM positions") == [("summary-indexer", 99)]


async def test_rows_of_topics_that_may_forget_outlive_other_definitions(database: str) -> None:
    await of_the_first_release(database, {("summary-indexer", "some", 0): 5})
    await migrated(database)
    found = await all_rows(database)
    assert {table: rows for table, rows in found.items() if rows} == KEPT
    assert await query(database, "SELECT owner, position FROM positions") == [("summary-indexer", 5)]


async def test_tables_of_this_release_stay_as_they_are(kept: Written) -> None:
    positions = "SELECT xmin::text, * FROM positions ORDER BY owner, topic, partition"
    before = await all_rows(kept.dsn), await query(kept.dsn, positions)
    with capture_logs() as lines:
        await migrated(kept.dsn)
    assert lines == []
    assert (await all_rows(kept.dsn), await query(kept.dsn, positions)) == before


async def test_what_a_start_reads_of_an_older_release_is_passed_over(database: str) -> None:
    """Snapshots of another fold, and peaks of attempts in tables that lack the columns asked for."""
    await of_the_first_release(database, {})
    assert await PostgresSnapshots(database).load() is None
    assert await newest_peaks(database, 5) == []
    await query(database, "ALTER TABLE snapshots RENAME COLUMN state TO streams")
    assert await PostgresSnapshots(database).load() is None


async def test_an_older_release_that_still_runs_stops_and_says_so(tables: str) -> None:
    log, written = MemoryLog(), asyncio.Event()
    await write_small_history(log, TOPICS)
    # The later release is in this process, too: while it is there, the older one shall have nothing to
    # write, not even snapshots of what is quiet.
    pace = Pace(between_s=0.01, quiet_s=3_600.0)
    older = asyncio.create_task(
        run_projection("dispatcher", service_on(log, tables), pace=pace, on_written=written.set)
    )
    async with asyncio.timeout(60):
        while await is_behind(log, tables, "dispatcher", TOPICS):
            await written.wait()
            written.clear()
        with a_later_release():
            await migrated(tables)
        await write_small_history(log, TOPICS)
        known = definitions.GENERATIONS["dispatcher"]
        expected = f"generation {known + 1}, this release knows {known}; upgrade it"
        with pytest.raises(NewerSchemaError, match=expected):
            await older
    assert await query(tables, "SELECT * FROM searches") == []
    with pytest.raises(NewerSchemaError, match="upgrade it"):
        await migrated(tables)


async def test_dashboards_answer_while_tables_are_made_anew(written: Written) -> None:
    log, database = written.log, written.dsn
    before = await all_rows(database)
    with a_later_release():
        async with watched(database) as watchers, running_projections(log, database, *OWNERS) as rows:
            await rows.until(lambda: made_anew(database))
            await rows.caught_up()
    assert await all_rows(database) == before
    assert all(answers for watcher in watchers for answers in watcher.seen.values())
