"""Points of the log become rows, once, whatever is repeated, skipped or killed."""

import asyncio
import json
import signal

import asyncpg
from aiokafka import AIOKafkaConsumer, TopicPartition

from tests.integration.summary_indexer.process import (
    POINTS,
    Place,
    Point,
    batch,
    caught_up,
    indexed,
    letters,
    points_of,
    positions,
    publish,
    published,
    reached,
)
from tests.waiting import until
from trackside.contracts.topics import partition_of
from trackside.eventlog.kafka import KafkaLog
from trackside.eventlog.log import Outgoing


async def test_batches_become_rows_and_positions(place: Place, log: KafkaLog) -> None:
    indexer = await place.indexer().start()
    expected = await published(log, place.topics, tasks=5, batches=10)
    await caught_up(log, place)
    assert await indexed(place.dsn) == expected
    assert await positions(place.dsn, place.topics.metrics.name) == await log.ends(place.topics.metrics.name)

    async def ready() -> bool:
        status, said = await indexer.ready()
        return status == 200 and said["lag_s"] == {place.topics.metrics.name: 0.0}

    await until(ready)


async def test_the_same_batch_twice_changes_nothing(place: Place, log: KafkaLog) -> None:
    await place.indexer().start()
    first = batch("s.1", 0)
    await publish(log, place.topics, "s.1", first)
    await caught_up(log, place)
    await publish(log, place.topics, "s.1", first)
    await publish(log, place.topics, "s.1", batch("s.1", POINTS // 2, value=7.0))
    await caught_up(log, place)
    half_new = points_of(batch("s.1", POINTS // 2, value=7.0))
    assert await indexed(place.dsn) == half_new | points_of(first)


async def test_the_stored_position_counts_and_the_groups_offset_does_not(place: Place, log: KafkaLog) -> None:
    expected: dict[Point, float | None] = {}
    for number in range(10):
        message = batch("s.1", number * POINTS)
        await publish(log, place.topics, "s.1", message)
        expected |= points_of(message)
    partition = partition_of("s.1", place.topics.metrics.partitions)
    await commit_for_the_group(place, partition, 7)
    indexer = await place.indexer().start()
    await caught_up(log, place)
    assert await indexed(place.dsn) == expected
    await indexer.kill()
    connection = await asyncpg.connect(place.dsn)
    await connection.execute("DELETE FROM trackside.metric_points WHERE step >= $1", 5 * POINTS)
    await connection.execute(
        "UPDATE trackside.positions SET position = 5 WHERE topic = $1 AND partition = $2",
        place.topics.metrics.name,
        partition,
    )
    await connection.close()
    await indexer.start()
    await caught_up(log, place)
    assert await indexed(place.dsn) == expected


async def test_killed_and_started_again_it_loses_and_doubles_nothing(place: Place, log: KafkaLog) -> None:
    indexer = place.indexer(batch_points="400")
    publishing = asyncio.create_task(published(log, place.topics, tasks=8, batches=120))
    for written in (1, 250, 500):
        await indexer.start()
        await reached(place, written)
        await indexer.kill()
    await indexer.start()
    expected = await publishing
    await caught_up(log, place)
    assert await indexed(place.dsn) == expected


async def test_an_undecodable_record_is_dead_lettered_and_the_next_is_indexed(
    place: Place, log: KafkaLog
) -> None:
    indexer = await place.indexer().start()
    good = batch("s.1", 0)
    headers = [("ce_type", b"trackside.metric-points-reported.v1")]
    for value in (b"\xff\xfe", b"{}", None):
        await publish(log, place.topics, "s.1", Outgoing(b"s.1", value, headers))
    unknown = Outgoing(b"s.1", b"{}", [("ce_type", b"trackside.metric-points-reported.v9")])
    bad = await publish(log, place.topics, "s.1", unknown)
    await publish(log, place.topics, "s.1", good)
    await caught_up(log, place)
    assert await indexed(place.dsn) == points_of(good)

    async def buried() -> bool:
        return len(await letters(place.dsn)) >= 4

    await until(buried)
    found = await letters(place.dsn)
    assert [row["code"] for row in found] == ["not_valid", "not_valid", "tombstone", "unknown_type"]
    assert found[-1]["source_topic"] == place.topics.metrics.name
    assert found[-1]["source_offset"] == bad.offset
    assert indexer.runs


async def test_sigterm_in_the_middle_of_work_exits_with_0(place: Place, log: KafkaLog) -> None:
    indexer = await place.indexer(batch_points="200").start()
    publishing = asyncio.create_task(published(log, place.topics, tasks=8, batches=100))
    await reached(place, 20)
    indexer.send(signal.SIGTERM)
    assert await indexer.ended() == 0
    expected = await publishing
    await indexer.start()
    await caught_up(log, place)
    assert await indexed(place.dsn) == expected


async def test_an_instance_that_slept_too_long_writes_nothing_twice(place: Place, log: KafkaLog) -> None:
    sleeper = await place.indexer("1").start()
    expected = await published(log, place.topics, tasks=5, batches=5)
    await caught_up(log, place)
    sleeper.send(signal.SIGSTOP)
    other = await place.indexer("2").start()
    more = await published(log, place.topics, tasks=5, batches=10)
    await caught_up(log, place)
    sleeper.send(signal.SIGCONT)
    last = batch("s.99", 0)
    await publish(log, place.topics, "s.99", last)
    await caught_up(log, place)
    assert await indexed(place.dsn) == expected | more | points_of(last)
    assert other.runs


async def test_a_wrong_setting_is_named_and_exits_with_2(place: Place) -> None:
    indexer = await place.indexer(batch_points="0").start()
    assert await indexer.ended() == 2
    assert "TRACKSIDE_SUMMARY_INDEXER_BATCH_POINTS" in indexer.output


async def test_rows_of_another_log_are_refused_with_both_places(place: Place, log: KafkaLog) -> None:
    indexer = await place.indexer().start()
    await published(log, place.topics, tasks=1, batches=1)
    await caught_up(log, place)
    await indexer.kill()
    connection = await asyncpg.connect(place.dsn)
    await connection.execute("UPDATE trackside.positions SET position = 70 WHERE position = 1")
    await connection.close()
    await indexer.start()
    assert await indexer.ended() == 1
    reasons = [
        json.loads(line).get("reason", "") for line in indexer.output.splitlines() if line.startswith("{")
    ]
    assert any("the rows in Postgres to 70" in reason for reason in reasons)


async def commit_for_the_group(place: Place, partition: int, offset: int) -> None:
    """Commits an offset for the indexer's group, as if somebody had meant it to be read."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=place.bootstrap,
        group_id=f"{place.topics.prefix}trackside.summary-indexer",
        enable_auto_commit=False,
    )
    await consumer.start()
    try:
        at = TopicPartition(place.topics.metrics.name, partition)
        consumer.assign([at])
        await consumer.commit({at: offset})
    finally:
        await consumer.stop()
