"""Updaters of installed packages that fail: an event in the log, rows, a line below the list of jobs."""

import os
from pathlib import Path

import pytest

from tests.integration.projections.harness import query
from tests.integration.summary_indexer.harness import (
    IndexerProcess,
    Sandbox,
    batch,
    indexed_points,
    points_of,
    publish,
    until_caught_up,
)
from tests.integration.summary_indexer.watched import Runs
from tests.polling import poll_until
from trackside.contracts.envelope.topics import partition_of
from trackside.contracts.tasks.summaries import SummaryUpdaterFailed
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.projections.database.postgres import database as opened_database
from trackside.projections.summaries.updaters import failed_updaters
from trackside.replay.rebuild.rebuild import rebuild

MODULE = """
async def fails(database, jobs):
    await database.transaction(lambda connection: connection.execute("SELECT 1"))
    raise ZeroDivisionError(f"no {sorted(jobs)}")


async def counts(database, jobs):
    async def work(connection):
        await connection.execute("INSERT INTO public.updated SELECT unnest($1::text[])", sorted(jobs))

    await database.transaction(work)
"""
POINTS = """
[trackside.summary_updaters]
a-broken = broken_updaters:fails
b-counts = broken_updaters:counts
c-absent = broken_updaters:absent
"""


@pytest.fixture
def with_updaters(sandbox: Sandbox, tmp_path: Path) -> IndexerProcess:
    """Returns an indexer that finds a package with three updaters, of which one works; not started."""
    folder = tmp_path / "packages"
    named = folder / "broken_updaters-1.0.dist-info"
    named.mkdir(parents=True)
    (folder / "broken_updaters.py").write_text(MODULE)
    (named / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-updaters\nVersion: 1.0\n")
    (named / "entry_points.txt").write_text(POINTS)
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return sandbox.indexer(watched={"PYTHONPATH": os.pathsep.join(paths)})


@pytest.mark.long
async def test_an_updater_that_fails_is_an_event_and_stops_nothing(
    own_runs: Runs, with_updaters: IndexerProcess
) -> None:
    """S2, S8: three batches of a job each, one event of an updater; a rebuild finds the same rows."""
    sandbox, log, indexer = own_runs.sandbox, own_runs.log, await with_updaters.start()
    messages = [batch(f"s.{number}", 0) for number in range(3)]
    await query(sandbox.dsn, "CREATE TABLE public.updated (job text)")

    for count, message in enumerate(messages, 1):
        await publish(log, sandbox.topics, message.task_id, message)

        async def is_updated(count: int = count) -> bool:
            return await query(sandbox.dsn, "SELECT count(DISTINCT job) FROM public.updated") == [(count,)]

        await poll_until(is_updated)
    await until_caught_up(log, sandbox)
    records = await own_runs.records(sandbox.topics.metrics)
    failures = [each.message for each in records if isinstance(each.message, SummaryUpdaterFailed)]
    found = sorted(failures, key=lambda event: event.name)
    assert [event.name for event in found] == ["a-broken", "c-absent"]
    assert found[0].error == "ZeroDivisionError: no ['s.0']" and found[0].failures == 1
    assert "absent" in found[1].error
    assert indexer.is_running and indexer.output.count("ZeroDivisionError: no") == 3
    assert await indexed_points(sandbox.dsn) == {key: v for m in messages for key, v in points_of(m).items()}

    twice = RecordWriter("summary-indexer", "1").single("a-broken", found[0])
    place = partition_of("a-broken", sandbox.topics.metrics.partitions)
    await log.publish(sandbox.topics.metrics.name, place, twice)
    await until_caught_up(log, sandbox)
    async with opened_database(sandbox.dsn) as opened:
        rows = await opened.transaction(lambda connection: failed_updaters(connection, found[0].time_ms))
        late = await opened.transaction(lambda connection: failed_updaters(connection, 2**62))
    assert [(row.name, row.failures, row.error) for row in rows if row.name == "a-broken"] == [
        ("a-broken", 1, found[0].error)
    ]
    assert late == []
    report = await rebuild(log, sandbox.topics, sandbox.dsn)
    assert report.equal, str(report)
    assert report.rows["updater_failures"] == 2
