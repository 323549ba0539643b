"""The embedded Kafka and Postgres of a test run answer in their own protocols."""

import asyncpg
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.stack import Servers


async def test_what_is_appended_to_a_new_topic_is_read_back(stack: Servers, topic_prefix: str) -> None:
    topic = f"{topic_prefix}words"
    admin = AIOKafkaAdminClient(bootstrap_servers=stack.kafka_bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])
    await admin.close()
    producer = AIOKafkaProducer(bootstrap_servers=stack.kafka_bootstrap, acks="all", enable_idempotence=True)
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=stack.kafka_bootstrap, auto_offset_reset="earliest")
    async with producer, consumer:
        await producer.send_and_wait(topic, b"hello")
        assert (await consumer.getone()).value == b"hello"


async def test_a_test_has_an_empty_database_of_its_own(stack: Servers, database: str) -> None:
    connection = await asyncpg.connect(database)
    count = await connection.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
    await connection.close()
    assert (count, database != stack.postgres_dsn) == (0, True)
