"""A scheduler that starts from snapshots knows what the one before it had learned of each task type."""

from collections.abc import AsyncIterator

import pytest

from tests.integration.projections.harness import TOPICS, all_snapshotted, query, running_projections
from tests.unit.projections.given import HistoryWriter, write_small_history
from trackside.aggregates.registry import AGGREGATES
from trackside.domain.folding.streams import Streams
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.memory import MemoryLog
from trackside.eventlog.reactor.recovery import recover
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.projections.reading.reads import open_read_models
from trackside.projections.tables.owners import OWNERS
from trackside.projections.writing.peaks import Peak, newest_peaks
from trackside.projections.writing.snapshots import PostgresSnapshots
from trackside.scheduler.app import recovered_peaks
from trackside.scheduler.hosts.estimates import MemoryPeaks
from trackside.scheduler.service import Scheduler
from trackside.scheduler.settings import SchedulerSettings

GIB = 2**30


@pytest.fixture
async def history() -> HistoryWriter:
    return await write_small_history(MemoryLog(), TOPICS)


@pytest.fixture
async def rows(history: HistoryWriter, database: str) -> AsyncIterator[str]:
    """Yields a database with the rows and snapshots of the history."""
    async with running_projections(history.log, database, *OWNERS) as following:
        await following.caught_up()
        await following.until(lambda: all_snapshotted(database))
        yield database


def scheduler(history: HistoryWriter, streams: Streams, peaks: MemoryPeaks | None = None) -> Scheduler:
    service = ServiceContext.on(history.log, TOPICS, "scheduler")
    return Scheduler(service, streams, SchedulerSettings(), peaks)


async def learned_by(history: HistoryWriter) -> MemoryPeaks:
    """Returns what a scheduler learns from the whole log."""
    read = scheduler(history, Streams(AGGREGATES))
    starts = {(TOPICS.events.name, partition): 0 for partition in range(TOPICS.events.partitions)}
    for entry in await history.log.reader(starts).read(1.0):
        record = decode(entry)
        assert record is not None
        read.fold(record)
    return read._cluster.peaks


async def test_t21_a_scheduler_that_starts_from_snapshots_estimates_as_the_one_before_it(
    history: HistoryWriter, rows: str
) -> None:
    before = await learned_by(history)
    assert (before.learned_memory("digits"), before.learned_cuda("digits")) == (
        int(GIB / 2 * 1.1),
        int(GIB * 1.1),
    )
    streams, _ = await recover(PostgresSnapshots(rows), history.log, TOPICS.events)
    assert streams.positions, "no snapshots were used"
    assert scheduler(history, streams)._cluster.peaks.learned_memory("digits") == 0
    after = scheduler(history, streams, await recovered_peaks(rows))._cluster.peaks
    for task_type in {*before.memory, *before.cuda}:
        assert after.learned_memory(task_type) == before.learned_memory(task_type)
        assert after.learned_cuda(task_type) == before.learned_cuda(task_type)


async def test_t21_what_users_are_shown_as_learned_is_what_the_scheduler_reserves(
    history: HistoryWriter, rows: str
) -> None:
    learned = await learned_by(history)
    async with open_read_models(rows) as models:
        shown = {row["task_type"]: row for row in await models.rows("task_types")}
    assert {*learned.memory, *learned.cuda} <= shown.keys()
    for task_type, row in shown.items():
        assert (row["learned_memory_bytes"] or 0) == learned.learned_memory(task_type)
        assert (row["learned_cuda_memory_bytes"] or 0) == learned.learned_cuda(task_type)
    await query(rows, "UPDATE trackside.attempts SET peak_cuda_memory_bytes = NULL")
    async with open_read_models(rows) as models:
        without_gpus = {row["task_type"]: row for row in await models.rows("task_types")}
    assert without_gpus["digits"]["learned_memory_bytes"] == shown["digits"]["learned_memory_bytes"]
    assert without_gpus["digits"]["learned_cuda_memory_bytes"] is None, "nothing was learned of it"


@pytest.mark.long
async def test_only_the_newest_peaks_of_each_type_are_read(rows: str) -> None:
    all_of_them = [peak for peak in await newest_peaks(rows, 20) if peak.task_type == "digits"]
    assert all_of_them == [Peak("digits", GIB // 2, GIB)] * 2
    assert [peak for peak in await newest_peaks(rows, 1) if peak.task_type == "digits"] == all_of_them[:1]
