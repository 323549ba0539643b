"""Points of the log are indexed exactly once, whatever is repeated, skipped or killed."""

import asyncio
import json
import signal

import asyncpg
from aiokafka import AIOKafkaConsumer, TopicPartition

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
from trackside.contracts.topics import partition_of
from trackside.eventlog.kafka import KafkaLog
from trackside.eventlog.log import Outgoing


async def test_batches_become_rows_and_positions(sandbox: Sandbox, log: KafkaLog) -> None:
    indexer = await sandbox.indexer().start()
    expected = await publish_batches(log, sandbox.topics, tasks=5, batches=10)
    await until_caught_up(log, sandbox)
    assert await indexed_points(sandbox.dsn) == expected
    assert await positions(sandbox.dsn, sandbox.topics.metrics.name) == await log.ends(
        sandbox.topics.metrics.name
    )

    async def ready() -> bool:
        status, answer = await indexer.ready()
        return status == 200 and answer["lag_s"] == {sandbox.topics.metrics.name: 0.0}

    await poll_until(ready)


async def test_the_same_batch_twice_changes_nothing(sandbox: Sandbox, log: KafkaLog) -> None:
    await sandbox.indexer().start()
    first = batch("s.1", 0)
    await publish(log, sandbox.topics, "s.1", first)
    await until_caught_up(log, sandbox)
    await publish(log, sandbox.topics, "s.1", first)
    await publish(log, sandbox.topics, "s.1", batch("s.1", POINTS_PER_BATCH // 2, value=7.0))
    await until_caught_up(log, sandbox)
    half_new = points_of(batch("s.1", POINTS_PER_BATCH // 2, value=7.0))
    assert await indexed_points(sandbox.dsn) == half_new | points_of(first)


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
    connection = await asyncpg.connect(sandbox.dsn)
    await connection.execute("DELETE FROM trackside.metric_points WHERE step >= $1", 5 * POINTS_PER_BATCH)
    await connection.execute(
        "UPDATE trackside.positions SET position = 5 WHERE topic = $1 AND partition = $2",
        sandbox.topics.metrics.name,
        partition,
    )
    await connection.close()
    await indexer.start()
    await until_caught_up(log, sandbox)
    assert await indexed_points(sandbox.dsn) == expected


async def test_killed_and_started_again_it_loses_and_doubles_nothing(sandbox: Sandbox, log: KafkaLog) -> None:
    indexer = sandbox.indexer(batch_points="400")
    publishing = asyncio.create_task(publish_batches(log, sandbox.topics, tasks=8, batches=120))
    for written in (1, 250, 500):
        await indexer.start()
        await until_written(sandbox, written)
        await indexer.kill()
    await indexer.start()
    expected = await publishing
    await until_caught_up(log, sandbox)
    assert await indexed_points(sandbox.dsn) == expected


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


async def test_sigterm_in_the_middle_of_work_exits_with_0(sandbox: Sandbox, log: KafkaLog) -> None:
    indexer = await sandbox.indexer(batch_points="200").start()
    publishing = asyncio.create_task(publish_batches(log, sandbox.topics, tasks=8, batches=100))
    await until_written(sandbox, 20)
    indexer.send(signal.SIGTERM)
    assert await indexer.ended() == 0
    expected = await publishing
    await indexer.start()
    await until_caught_up(log, sandbox)
    assert await indexed_points(sandbox.dsn) == expected


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
    connection = await asyncpg.connect(sandbox.dsn)
    await connection.execute("UPDATE trackside.positions SET position = 70 WHERE position = 1")
    await connection.close()
    await indexer.start()
    assert await indexer.ended() == 1
    reasons = [
        json.loads(line).get("reason", "") for line in indexer.output.splitlines() if line.startswith("{")
    ]
    assert any("the rows in Postgres to 70" in reason for reason in reasons)


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
