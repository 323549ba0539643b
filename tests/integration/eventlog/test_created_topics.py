"""Topics are created with the times after which the broker deletes what is in them."""

from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.stack import Servers
from trackside.contracts.topics import HOUR_MS, Topics
from trackside.eventlog.kafka import KafkaLog
from trackside.eventlog.kafka_topics import open_admin


async def test_a_new_file_of_heartbeats_begins_each_quarter_of_an_hour(
    stack: Servers, topic_prefix: str
) -> None:
    topics = Topics(topic_prefix)
    async with KafkaLog(stack.kafka_bootstrap, "test") as log:
        await log.ensure([topics.heartbeats, topics.fleet])
        await log.preflight([topics.heartbeats, topics.fleet])
    found = {name: await _settings(stack, name) for name in (topics.heartbeats.name, topics.fleet.name)}
    assert found[topics.heartbeats.name]["retention.ms"] == str(HOUR_MS)
    assert found[topics.heartbeats.name]["segment.ms"] == str(HOUR_MS // 4)
    assert found[topics.fleet.name]["retention.ms"] == "-1"


async def _settings(stack: Servers, topic: str) -> dict[str, str]:
    async with open_admin(stack.kafka_bootstrap, "settings of topics") as admin:
        (response,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        ((_code, _text, _kind, _name, entries),) = response.resources
        return {entry[0]: entry[1] for entry in entries}
