"""Points that Postgres does not take in time: their batch is halved, and one record stops no others."""

from tests.integration.projections.harness import fail_new_series
from tests.integration.summary_indexer.harness import (
    Sandbox,
    batch,
    dead_letters,
    indexed_points,
    points_of,
    publish,
    publish_batches,
    until_caught_up,
)
from tests.polling import poll_until
from trackside.contracts.envelope.topics import partition_of
from trackside.eventlog.kafka.kafka_log import KafkaLog

TOO_SLOW = "57014", "canceling statement due to statement timeout"


async def test_a_record_that_takes_too_long_is_a_dead_letter_and_all_others_are_indexed(
    sandbox: Sandbox, log: KafkaLog
) -> None:
    indexer = await sandbox.indexer().start()
    expected = await publish_batches(log, sandbox.topics, tasks=4, batches=1)
    await until_caught_up(log, sandbox)
    await fail_new_series(sandbox.dsn, *TOO_SLOW, task="slow.1")
    partition = partition_of("slow.1", sandbox.topics.metrics.partitions)
    slow = await publish(log, sandbox.topics, "slow.1", batch("slow.1", 0))
    for number in range(1, 5):
        for task in ("s.0", "s.1", "slow.2"):
            message = batch(task, 1_000 * number)
            await publish(log, sandbox.topics, task, message)
            expected |= points_of(message)
    await until_caught_up(log, sandbox)
    assert await indexed_points(sandbox.dsn) == expected
    await poll_until(lambda: _has_letters(sandbox))
    [letter] = await dead_letters(sandbox.dsn)
    assert (letter["code"], letter["source_topic"]) == ("too_slow", sandbox.topics.metrics.name)
    assert (letter["source_partition"], letter["source_offset"]) == (partition, slow.offset)
    assert indexer.is_running and "Traceback" not in indexer.output


async def _has_letters(sandbox: Sandbox) -> bool:
    return bool(await dead_letters(sandbox.dsn))
