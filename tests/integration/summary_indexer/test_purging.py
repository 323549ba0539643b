"""Jobs that are deleted with their rows: in the order of the log, so that a rebuild leaves out the same."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.integration.projections.harness import running_projections
from tests.integration.summary_indexer.harness import (
    Sandbox,
    batch,
    indexed_points,
    points_of,
    publish,
    until_caught_up,
)
from tests.integration.summary_indexer.watched import dispatching, publish_command
from tests.polling import poll_until
from trackside.aggregates.summary.messages import (
    DeleteSummaryJob,
    RestoreSummaryJob,
    SummarizedTask,
    task_job_id,
)
from trackside.contracts.tasks.summaries import SummariesPurged
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.log_id import NamedLog
from trackside.eventlog.memory import MemoryLog
from trackside.projections.database.positions import OvertakenError
from trackside.projections.database.postgres import database
from trackside.replay.rebuild.rebuild import rebuild
from trackside.summary_indexer import store
from trackside.summary_indexer.store import PointsStore, PositionAdvance

STREAM, TASK, OTHER = "s", "s.1", "s.2"


@pytest.fixture
async def answering(log: KafkaLog, sandbox: Sandbox) -> AsyncIterator[None]:
    async with (
        dispatching(log, sandbox),
        running_projections(log, sandbox.dsn, "dispatcher", "scheduler", topics=sandbox.topics),
    ):
        yield


@pytest.mark.usefixtures("answering")
async def test_a_purged_job_has_no_rows_and_others_keep_theirs(sandbox: Sandbox, log: KafkaLog) -> None:
    """S13: the log keeps the points, what comes after the purge is indexed, and a rebuild is equal."""
    indexer = await sandbox.indexer().start()
    for task in (TASK, OTHER):
        await publish(log, sandbox.topics, STREAM, batch(task, 0))
    await until_caught_up(log, sandbox)
    delete = DeleteSummaryJob(task=SummarizedTask(stream=STREAM, task=TASK), purge=True)
    await publish_command(log, sandbox, task_job_id(TASK), delete)

    async def is_gone() -> bool:
        return await indexed_points(sandbox.dsn) == points_of(batch(OTHER, 0))

    await poll_until(is_gone)
    await publish_command(log, sandbox, task_job_id(TASK), RestoreSummaryJob())
    later = batch(TASK, 100)
    await publish(log, sandbox.topics, STREAM, later)

    async def is_back() -> bool:
        return await indexed_points(sandbox.dsn) == points_of(batch(OTHER, 0)) | points_of(later)

    await poll_until(is_back)
    assert indexer.is_running
    report = await rebuild(log, sandbox.topics, sandbox.dsn)
    assert report.equal, str(report)
    assert report.rows["metric_points"] == len(points_of(batch(OTHER, 0)) | points_of(later))


REFUSES_LONG_STATEMENTS = """
CREATE FUNCTION trackside.refuse_long() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF (SELECT count(*) FROM gone) > 5 THEN
        RAISE EXCEPTION 'canceling statement due to statement timeout' USING ERRCODE = 'query_canceled';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER refuse_long AFTER DELETE ON trackside.metric_points REFERENCING OLD TABLE AS gone
FOR EACH STATEMENT EXECUTE FUNCTION trackside.refuse_long()
"""


async def test_a_job_with_more_points_than_a_statement_can_remove_is_purged(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be tried for ever, and nothing behind it in the log indexed."""
    monkeypatch.setattr(store, "PURGED_POINTS", 5)
    waited: list[str | None] = []
    async with database(sandbox.dsn) as opened:
        points = PointsStore(
            opened, sandbox.topics.metrics, waited.append, NamedLog(MemoryLog(), "log", frozenset())
        )
        await points.positions()
        await points.write([batch(TASK, 0), batch(TASK, 20), batch(OTHER, 0)], {0: PositionAdvance(0, 3)})
        assert len(await indexed_points(sandbox.dsn)) > 10
        await opened.transaction(lambda connection: connection.execute(REFUSES_LONG_STATEMENTS))
        purged = SummariesPurged(stream=STREAM, task_id=TASK)
        async with asyncio.timeout(60):
            await points.write([batch(TASK, 60), purged, batch(TASK, 40)], {0: PositionAdvance(3, 6)})
        with pytest.raises(OvertakenError):
            await points.write([purged], {0: PositionAdvance(3, 5)})
    assert await indexed_points(sandbox.dsn) == points_of(batch(OTHER, 0)) | points_of(batch(TASK, 40))
    assert set(waited) == {None}
