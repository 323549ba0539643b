import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest

from tests.unit.summary_indexer.given import TOPICS, WRITER, PointsInMemory, batch, entry, outgoing
from trackside.aggregates.registry import CODEC
from trackside.contracts.streams.commands import RecordDeadLettered, Source
from trackside.eventlog.errors import OffsetGoneError
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Entry, Outgoing
from trackside.eventlog.memory import MemoryLog
from trackside.projections.database.positions import OvertakenError
from trackside.projections.database.postgres import StatementTimeoutError
from trackside.projections.tables.metrics import Reported, rows_of
from trackside.summary_indexer.indexing import GapError, Indexer
from trackside.summary_indexer.metrics_log import MetricsLog
from trackside.summary_indexer.store import PositionAdvance

PARTITION = 0
RECORDS = [outgoing(batch(first=at * 3)) for at in range(11)]
ENTRIES = [entry(at, record) for at, record in enumerate(RECORDS)]


async def log_of(records: Sequence[Outgoing]) -> MemoryLog:
    log = MemoryLog()
    await log.ensure([TOPICS.metrics, TOPICS.dead_letters])
    for record in records:
        await log.append(TOPICS.metrics.name, PARTITION, [record])
    return log


def indexer_of(log: MemoryLog, store: PointsInMemory, batch_points: int = 100) -> Indexer:
    source = MetricsLog(log, TOPICS, RecordWriter("summary-indexer", "1"))
    return Indexer(store, source, batch_points=batch_points, buffer_points=30)


async def begun(log: MemoryLog, store: PointsInMemory) -> Indexer:
    """Returns an indexer that has the partition."""
    indexer = indexer_of(log, store)
    await indexer.assign({PARTITION})
    return indexer


@asynccontextmanager
async def running_writer(indexer: Indexer) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(indexer.run_writer())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def dead_letters(log: MemoryLog) -> list[RecordDeadLettered]:
    reader = log.reader({(TOPICS.dead_letters.name, 0): 0})
    read = await reader.read(0.05)
    found = [CODEC.decode(CODEC.envelope(letter.headers), letter.value) for letter in read]
    return [letter for letter in found if isinstance(letter, RecordDeadLettered)]


async def feed(indexer: Indexer, entries: Sequence[Entry]) -> None:
    for each in entries:
        await indexer.accept(each)


async def test_what_arrives_while_a_transaction_runs_shares_the_next_one() -> None:
    store = PointsInMemory()
    indexer = indexer_of(await log_of(RECORDS[:8]), store, batch_points=12)
    assert await indexer.assign({PARTITION, 1}) == {PARTITION: 0, 1: 0}
    await feed(indexer, ENTRIES[:8])
    async with running_writer(indexer):
        await store.until_position(PARTITION, 8)
    assert (store.transactions, len(store.points), store.stored[PARTITION]) == ([12, 12], 24, 8)


async def test_records_behind_the_stored_position_or_of_another_partition_are_passed_over() -> None:
    store = PointsInMemory({PARTITION: 2})
    indexer = indexer_of(await log_of(RECORDS[:4]), store)
    assert await indexer.assign({PARTITION}) == {PARTITION: 2}
    await indexer.accept(entry(2, RECORDS[2], partition=3))
    assert indexer.positions == {PARTITION: 2}
    async with running_writer(indexer):
        await feed(indexer, ENTRIES[:4])
        await store.until_position(PARTITION, 4)
    assert sorted(step for _, step in store.points) == list(range(6, 12))


async def test_a_record_that_was_skipped_or_a_position_beyond_the_log_stops_the_indexer() -> None:
    indexer = await begun(await log_of(RECORDS[:3]), PointsInMemory())
    await indexer.accept(ENTRIES[0])
    with pytest.raises(GapError, match="expected offset 1, got 2"):
        await indexer.accept(ENTRIES[2])
    with pytest.raises(OffsetGoneError, match="reaches from 0 to 1, the rows in Postgres to 7"):
        await begun(await log_of(RECORDS[:1]), PointsInMemory({PARTITION: 7}))


async def test_beginning_anew_forgets_what_is_not_written() -> None:
    store = PointsInMemory()
    indexer = await begun(await log_of(RECORDS[:3]), store)
    await feed(indexer, ENTRIES[:2])
    assert await indexer.assign({PARTITION}) == {PARTITION: 0}
    async with running_writer(indexer):
        await feed(indexer, ENTRIES[:3])
        await store.until_position(PARTITION, 3)
    assert len(store.points) == 9


GOOD = outgoing(batch())
SERIES = batch().series[0].model_copy(update={"values": [1.0]})
PLACE = Source(topic="t", partition=0, offset=0)
LETTER = RecordDeadLettered(source=PLACE, code="a", message="", reader="r", sha256="", head_base64="")


@pytest.mark.parametrize(
    ("bad", "code", "message"),
    [
        (Outgoing(GOOD.key, b"\xff", GOOD.headers), "not_valid", ""),
        (Outgoing(GOOD.key, b"[]", GOOD.headers), "not_valid", ""),
        (Outgoing(GOOD.key, None, GOOD.headers), "tombstone", ""),
        (WRITER.single("s", LETTER), "unexpected_type", "trackside.record-dead-lettered.v1"),
        (outgoing(batch().model_copy(update={"series": [SERIES]})), "not_valid", "'loss'"),
    ],
    ids=["no text", "no object", "tombstone", "another message", "columns of different length"],
)
async def test_a_bad_record_is_dead_lettered_and_passed_over(bad: Outgoing, code: str, message: str) -> None:
    log, store = await log_of([bad, GOOD]), PointsInMemory()
    indexer = await begun(log, store)
    async with running_writer(indexer):
        await feed(indexer, [entry(0, bad), entry(1, GOOD)])
        await store.until_position(PARTITION, 2)
    [letter] = await dead_letters(log)
    assert (letter.code, letter.source.offset, letter.reader) == (code, 0, "summary-indexer")
    assert message in letter.message and len(store.points) == 3


async def test_a_second_writer_stops_the_first() -> None:
    log, store = await log_of(RECORDS[:2]), PointsInMemory()
    slow, fast = await begun(log, store), await begun(log, store)
    for indexer in (slow, fast):
        await indexer.accept(ENTRIES[0])
    async with running_writer(fast):
        await store.until_position(PARTITION, 1)
    with pytest.raises(OvertakenError):
        await slow.run_writer()
    assert len(store.points) == 3


async def test_reading_waits_while_the_buffer_is_full() -> None:
    store = PointsInMemory()
    indexer = await begun(await log_of(RECORDS), store)
    feeding = asyncio.create_task(feed(indexer, ENTRIES))
    done, _ = await asyncio.wait({feeding}, timeout=0.05)
    assert not done
    async with running_writer(indexer):
        await store.until_position(PARTITION, 11)
    await feeding


class SlowPoints(PointsInMemory):
    """Takes too long for more than `most` points, and for all that have a step of `too_slow`."""

    def __init__(self, most: int, too_slow: Sequence[int] = ()) -> None:
        super().__init__()
        self.most, self.too_slow, self.failed = most, set(too_slow), 0

    async def write(self, messages: Sequence[Reported], advances: Mapping[int, PositionAdvance]) -> int:
        points = rows_of(messages).points
        if len(points) > self.most or self.too_slow & {point[1] for point in points}:
            self.failed += 1
            raise StatementTimeoutError("canceling statement due to statement timeout")
        return await super().write(messages, advances)


async def test_a_batch_that_takes_too_long_is_halved_until_its_parts_do_not() -> None:
    store = SlowPoints(most=7)
    indexer = await begun(await log_of(RECORDS[:8]), store)
    await feed(indexer, ENTRIES[:8])
    async with running_writer(indexer):
        await store.until_position(PARTITION, 8)
    assert (len(store.points), max(store.transactions)) == (24, 6)
    assert store.failed < len(store.transactions) + 2


async def test_a_record_that_alone_takes_too_long_is_dead_lettered_and_the_index_goes_on() -> None:
    log, store = await log_of(RECORDS[:8]), SlowPoints(most=100, too_slow=[13])
    indexer = await begun(log, store)
    await feed(indexer, ENTRIES[:8])
    async with running_writer(indexer):
        await store.until_position(PARTITION, 8)
    [letter] = await dead_letters(log)
    assert (letter.code, letter.source.offset) == ("too_slow", 4)
    assert "statement timeout" in letter.message
    assert len(store.points) == 21 and not indexer.is_working
