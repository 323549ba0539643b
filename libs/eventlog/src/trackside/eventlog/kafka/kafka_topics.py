"""Changes of topics that only a restore makes: settings of topics that are there, and where they begin."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.admin.records_to_delete import RecordsToDelete
from aiokafka.errors import KafkaError
from aiokafka.protocol.admin import DescribeConfigsRequest

from trackside.contracts.envelope.topics import Topic
from trackside.eventlog.errors import TransientError
from trackside.eventlog.kafka.client_lifecycle import start_client
from trackside.eventlog.kafka.kafka_metadata import describe_cluster, existing_topics
from trackside.eventlog.kafka.kafka_probe import reason_of
from trackside.eventlog.kafka.kafka_security import client_options
from trackside.eventlog.log import TopicPartition as Partition
from trackside.eventlog.settings.kafka_settings import KafkaSettings, kafka_settings

ANSWER_MS = 30_000
_LOOK_AGAIN_S = 0.05
TIME_SETTING = "message.timestamp.type"


async def times_of(kafka: KafkaSettings | str, topics: Sequence[Topic]) -> dict[str, str]:
    """Returns whose times the records of topics have, `LogAppendTime` or `CreateTime`, by topic.

    Topics that don't exist are left out. Raises TransientError.
    """
    async with open_admin(kafka, "settings of topics") as admin:
        known = await existing_topics(admin, [topic.name for topic in topics])
        resources = [_resource(topic, None) for topic in topics if topic.name in known]
        if not resources:
            return {}
        return {
            name: entry[1]
            for response in await admin.describe_configs(resources)
            for _code, _text, _kind, name, entries in response.resources
            for entry in entries
            if entry[0] == TIME_SETTING
        }


async def set_settings(kafka: KafkaSettings | str, topics: Sequence[Topic]) -> None:
    """Sets the settings of topics, in place of all that were set before; returns when every broker has them.

    Raises TransientError.
    """
    async with open_admin(kafka, "settings of topics") as admin:
        for response in await admin.alter_configs(
            [_resource(topic, topic.created_settings) for topic in topics]
        ):
            for code, text, _kind, name in response.resources:
                if code:
                    raise TransientError(f"settings of topic {name} were refused: error {code} {text or ''}")
        brokers = [broker["node_id"] for broker in (await describe_cluster(admin))["brokers"]]
        async with asyncio.timeout(ANSWER_MS / 1000):
            for broker in brokers:
                while not await _has_settings(admin, broker, topics):  # noqa: ASYNC110 - Kafka tells nobody
                    await asyncio.sleep(_LOOK_AGAIN_S)


async def _has_settings(admin: AIOKafkaAdminClient, broker: int, topics: Sequence[Topic]) -> bool:
    # The controller answers before the brokers have read a change: until then they stamp records as before.
    wanted = {topic.name: topic.created_settings for topic in topics}
    topic_kind = ConfigResourceType.TOPIC.value
    resources = [(topic_kind, name, list(settings)) for name, settings in wanted.items()]
    answer = await admin._send_request(DescribeConfigsRequest(resources, include_synonyms=False), broker)
    found = {
        name: {entry[0]: entry[1] for entry in entries}
        for _code, _text, _kind, name, entries in answer.resources
    }
    return all(found[name].get(key) == value for name, of in wanted.items() for key, value in of.items())


async def delete_before(kafka: KafkaSettings | str, starts: Mapping[Partition, int]) -> None:
    """Lets partitions begin at the offsets given: records before them are deleted. Raises TransientError."""
    wanted = {TopicPartition(*place): RecordsToDelete(offset) for place, offset in starts.items()}
    async with open_admin(kafka, "the beginning of topics") as admin:
        await admin.delete_records(wanted)


@asynccontextmanager
async def open_admin(kafka: KafkaSettings | str, about: str) -> AsyncIterator[AIOKafkaAdminClient]:
    """Yields a client for changes; raises TransientError, which says what they are about."""
    settings = kafka_settings(kafka)
    admin = AIOKafkaAdminClient(
        **client_options(settings), client_id="trackside-topics", request_timeout_ms=ANSWER_MS
    )
    try:
        await start_client(admin)
        yield admin
    except (KafkaError, OSError, TimeoutError) as error:
        raise TransientError(
            f"no answer from Kafka at {settings.kafka_bootstrap} about {about}: "
            f"{await reason_of(error, settings)}"
        ) from error
    finally:
        await admin.close()


def _resource(topic: Topic, settings: Mapping[str, str] | None) -> ConfigResource:
    return ConfigResource(ConfigResourceType.TOPIC, topic.name, None if settings is None else dict(settings))
