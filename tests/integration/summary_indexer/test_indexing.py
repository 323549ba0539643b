"""Points of the log are indexed exactly once, whatever is repeated, skipped or killed."""

import asyncio
import signal
from collections.abc import Mapping
from dataclasses import dataclass

import asyncpg
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from tests.integration.projections.harness import query
from tests.integration.summary_indexer.harness import (
    POINTS_PER_BATCH,
    Point,
    Sandbox,
    batch,
    dead_letters,
    indexed_points,
    points_of,
    positions,
    publish,
    publish_batches,
    until_caught_up,
    until_written,
)
from tests.polling import poll_until
from trackside.contracts.envelope.topics import partition_of
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.log import Entry, Outgoing
from trackside.eventlog.settings.settings import StackSettings
from trackside.summary_indexer.faust_consumer import ConsumerStopped, run_consumer


@pytest.mark.long
async def test_the_stored_position_counts_and_the_groups_offset_does_not(
    sandbox: Sandbox, log: KafkaLog
) -> None:
    expected: dict[Point, float | None] = {}
    for number in range(10):
        message = batch("s.1", number * POINTS_PER_BATCH)
        await publish(log, sandbox.topics, "s.1", message)
        expected |= points_of(message)
    partition = partition_of("s.1", sandbox.topics.metrics.partitions)
    await commit_for_the_group(sandbox, partition, 7)
    indexer = await sandbox.indexer().start()
    await until_caught_up(log, sandbox)
    assert await indexed_points(sandbox.dsn) == expected
    await indexer.kill()
    await query(sandbox.dsn, "DELETE FROM metric_points WHERE step >= $1", 5 * POINTS_PER_BATCH)
    await query(sandbox.dsn, "UPDATE positions SET position = 5 WHERE position = 10")
    await indexer.start()
    await until_caught_up(log, sandbox)
    assert await indexed_points(sandbox.dsn) == expected


async def test_killed_or_stopped_in_the_middle_of_work_it_loses_and_doubles_nothing(
    sandbox: Sandbox, log: KafkaLog
) -> None:
    indexer = sandbox.indexer(batch_points="400")
    publishing = asyncio.create_task(publish_batches(log, sandbox.topics, tasks=8, batches=100))
    for written, number, code in ((1, signal.SIGKILL, -signal.SIGKILL), (250, signal.SIGTERM, 0)):
        await indexer.start()
        await until_written(sandbox, written)
        indexer.send(number)
        assert await indexer.ended() == code
    await indexer.start()
    expected = await publishing
    await until_caught_up(log, sandbox)
    assert await indexed_points(sandbox.dsn) == expected
    topic = sandbox.topics.metrics.name
    assert await positions(sandbox.dsn, topic) == await log.ends(topic)
    await indexer.until("/ready", lambda answer: answer["lag_s"] == {topic: 0.0})


async def test_an_undecodable_record_is_dead_lettered_and_the_next_is_indexed(
    sandbox: Sandbox, log: KafkaLog
) -> None:
    indexer = await sandbox.indexer().start()
    good = batch("s.1", 0)
    headers = [("ce_type", b"trackside.metric-points-reported.v1")]
    for value in (b"\xff\xfe", b"{}", None):
        await publish(log, sandbox.topics, "s.1", Outgoing(b"s.1", value, headers))
    unknown = Outgoing(b"s.1", b"{}", [("ce_type", b"trackside.metric-points-reported.v9")])
    bad = await publish(log, sandbox.topics, "s.1", unknown)
    await publish(log, sandbox.topics, "s.1", good)
    await until_caught_up(log, sandbox)
    assert await indexed_points(sandbox.dsn) == points_of(good)

    async def all_written() -> bool:
        return len(await dead_letters(sandbox.dsn)) >= 4

    await poll_until(all_written)
    found = await dead_letters(sandbox.dsn)
    assert [row["code"] for row in found] == ["not_valid", "not_valid", "tombstone", "unknown_type"]
    assert found[-1]["source_topic"] == sandbox.topics.metrics.name
    assert found[-1]["source_offset"] == bad.offset
    assert indexer.is_running


async def test_a_transaction_that_waits_for_a_lock_is_not_taken_for_a_dead_consumer(
    sandbox: Sandbox, log: KafkaLog
) -> None:
    indexer = await sandbox.indexer().start()
    expected = await publish_batches(log, sandbox.topics, tasks=1, batches=1)
    await until_caught_up(log, sandbox)
    blocker = await asyncpg.connect(sandbox.dsn)
    try:
        await blocker.execute("BEGIN; SELECT FROM positions FOR UPDATE")
        more = await publish_batches(log, sandbox.topics, tasks=1, batches=2)

        async def is_late() -> bool:
            _, answer = await indexer.get("/ready")
            lag_s: float = answer["lag_s"][sandbox.topics.metrics.name]
            return lag_s > 12  # a dead consumer is replaced after 10 s

        await poll_until(is_late)
    finally:
        await blocker.close()
    await until_caught_up(log, sandbox)
    assert await indexed_points(sandbox.dsn) == expected | more
    assert indexer.is_running


@pytest.mark.long
async def test_an_instance_that_slept_too_long_writes_nothing_twice(sandbox: Sandbox, log: KafkaLog) -> None:
    sleeper = await sandbox.indexer("1").start()
    expected = await publish_batches(log, sandbox.topics, tasks=5, batches=5)
    await until_caught_up(log, sandbox)
    sleeper.send(signal.SIGSTOP)
    other = await sandbox.indexer("2").start()
    more = await publish_batches(log, sandbox.topics, tasks=5, batches=10)
    await until_caught_up(log, sandbox)
    sleeper.send(signal.SIGCONT)
    last = batch("s.99", 0)
    await publish(log, sandbox.topics, "s.99", last)
    await until_caught_up(log, sandbox)
    assert await indexed_points(sandbox.dsn) == expected | more | points_of(last)
    assert other.is_running


async def test_a_wrong_setting_is_named_and_exits_with_2(sandbox: Sandbox) -> None:
    indexer = await sandbox.indexer(batch_points="0").start()
    assert await indexer.ended() == 2
    assert "TRACKSIDE_SUMMARY_INDEXER_BATCH_POINTS" in indexer.output


async def test_rows_of_another_log_are_refused_with_both_places(sandbox: Sandbox, log: KafkaLog) -> None:
    indexer = await sandbox.indexer().start()
    await publish_batches(log, sandbox.topics, tasks=1, batches=1)
    await until_caught_up(log, sandbox)
    await indexer.kill()
    await query(sandbox.dsn, "UPDATE positions SET position = 70 WHERE position = 1")
    await indexer.start()
    assert await indexer.ended() == 1
    assert "have rows up to 70 of" in indexer.output


async def commit_for_the_group(sandbox: Sandbox, partition: int, offset: int) -> None:
    """Commits an offset for the indexer's group, as if it were read from there."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=sandbox.bootstrap,
        group_id=f"{sandbox.topics.prefix}trackside.summary-indexer",
        enable_auto_commit=False,
    )
    await consumer.start()
    try:
        at = TopicPartition(sandbox.topics.metrics.name, partition)
        consumer.assign([at])
        await consumer.commit({at: offset})
    finally:
        await consumer.stop()


class RejectedError(Exception):
    """What the sink of these tests raises."""


@dataclass
class RejectingSink:
    """Rejects every record, or fails to return positions; the first `late` times they are late."""

    has_positions: bool
    late: int = 0

    async def assign(self, partitions: set[int]) -> Mapping[int, int]:
        if self.late:
            self.late -= 1
            raise TimeoutError
        if not self.has_positions:
            raise RejectedError(partitions)
        return dict.fromkeys(partitions, 0)

    async def accept(self, entry: Entry) -> None:
        assert self.has_positions, "nothing may be read"
        raise RejectedError(entry.offset)


@pytest.mark.parametrize(
    ("has_positions", "late", "error"),
    [(True, 0, RejectedError), (False, 0, ConsumerStopped), (True, 2, RejectedError)],
    ids=["not taken", "no positions", "taken late"],
)
async def test_an_error_ends_the_consumer_but_late_positions_do_not(
    sandbox: Sandbox, log: KafkaLog, has_positions: bool, late: int, error: type[Exception]
) -> None:
    await publish(log, sandbox.topics, "s.1", batch("s.1", 0))
    settings = StackSettings(kafka_bootstrap=sandbox.bootstrap, topic_prefix=sandbox.topics.prefix)
    sink = RejectingSink(has_positions, late)
    with pytest.raises(error) as raised:
        async with asyncio.timeout(60):
            await run_consumer(settings, 6.0, sink)
    assert "RejectedError" in repr(raised.value) and not sink.late
