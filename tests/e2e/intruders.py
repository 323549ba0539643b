"""Users of a broker who write what is not theirs to write, with or without a key to sign it with."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import TopicAuthorizationFailedError
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from tests.e2e.forged_records import ForgedRecord
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.eventlog.kafka.kafka_security import client_options
from trackside.eventlog.keys.decision_signer import DecisionSigner
from trackside.eventlog.settings.kafka_settings import KafkaSettings

Place = tuple[str, int, int]
PARTITIONS = {topic.name: topic.partitions for topic in Topics().shared}
MAGIC, ALL_REPLICAS, TIMEOUT_MS = 2, -1, 10_000


@dataclass(frozen=True)
class Intruder:
    """One user, and the key that signs what it writes, if it has one.

    As `worker` it writes every event under the name of this worker, as who has taken that one over would.
    """

    name: str
    user: str = ""
    signer: DecisionSigner | None = None
    worker: str = ""

    def disguised(self, forged: ForgedRecord) -> ForgedRecord:
        """Returns a record as this user writes it; what is signed already stays as it is."""
        if forged.is_signed:
            return forged
        headers = forged.headers
        if self.worker:
            own = f"trackside/worker/{self.worker}".encode()
            headers = [(name, own if name == "ce_source" else octets) for name, octets in headers]
        renamed = forged._replace(headers=headers)
        return renamed if self.signer is None else renamed.signed_with(self.signer)


class RawProducer(AIOKafkaAdminClient):  # type: ignore[misc]  # aiokafka has no types
    """Sends produce requests without a look at the topic first, so that the broker alone refuses them."""

    async def send(self, forged: ForgedRecord) -> Place | None:
        """Writes a record as it is; returns its place, None if the broker denies it."""
        partition = forged.partition
        if partition is None:
            partition = partition_of(forged.stream, PARTITIONS.get(forged.topic, 1))
        batch = DefaultRecordBatchBuilder(MAGIC, 0, 0, -1, -1, -1, 1_000_000)
        batch.append(0, None, forged.stream.encode(), forged.value, forged.headers)
        written = [(forged.topic, [(partition, bytes(batch.build()))])]
        answer = await self._send_request(ProduceRequest(None, ALL_REPLICAS, TIMEOUT_MS, written))
        [(_, [(_, code, offset, *_)])] = answer.topics
        if code == TopicAuthorizationFailedError.errno:
            return None
        assert code == 0, (forged.topic, code)
        return forged.topic, partition, offset


@asynccontextmanager
async def raw_producer(kafka: KafkaSettings) -> AsyncIterator[RawProducer]:
    """Yields what writes as a user; a KafkaError if the broker does not let it in."""
    client = RawProducer(**client_options(kafka))
    await client.start()
    try:
        yield client
    finally:
        await client.close()
