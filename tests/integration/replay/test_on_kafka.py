"""The same on a real Kafka: rows, rebuild, verification."""

from tests.integration.projections.following import running
from tests.stack import Servers
from tests.unit.projections.histories import small
from trackside.contracts.topics import Topics
from trackside.eventlog.kafka import KafkaLog
from trackside.replay.rebuild import rebuild
from trackside.replay.verify import verify


async def test_a_log_on_kafka_is_projected_rebuilt_and_verified(
    stack: Servers, topic_prefix: str, database: str
) -> None:
    topics = Topics(prefix=topic_prefix, event_partitions=3)
    async with KafkaLog(stack.kafka_bootstrap, client_id="replay-test") as log:
        await small(log, topics)
        owners = ("dispatcher", "scheduler", "summary-indexer")
        async with running(log, database, *owners, topics=topics) as rows:
            await rows.caught_up()
        report = await rebuild(log, topics, database)
        assert report.equal, str(report)
        assert report.events > 100
        assert await verify(log, topics) == []
