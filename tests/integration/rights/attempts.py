"""Tries each operation on each topic as one user, one request for all topics, and says what was denied."""

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Self

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import TopicAuthorizationFailedError
from aiokafka.protocol.admin import (
    AlterConfigsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteAclsRequest,
    DeleteRecordsRequest,
)
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from trackside.contracts.wire.topic_rights import AclOperation
from trackside.eventlog.kafka.kafka_acls import ALLOW, ANY, LITERAL
from trackside.eventlog.kafka.kafka_security import client_options
from trackside.eventlog.settings.kafka_settings import KafkaSettings

TOPIC, READ = 2, 3
DENIED = TopicAuthorizationFailedError.errno
OPERATIONS = tuple(AclOperation)


class Attempts:
    """One connection of one user."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._client = AIOKafkaAdminClient(**client_options(kafka))

    async def __aenter__(self) -> Self:
        await self._client.start()
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        await self._client.close()

    async def permitted(self, names: Sequence[str], operation: AclOperation) -> set[str]:
        """Does one thing with all topics; returns those that it was not denied for."""
        codes = dict(await getattr(self, f"_{operation.name.lower()}")(names))
        assert set(codes) == set(names), operation
        return {name for name, code in codes.items() if code != DENIED}

    async def take_away_read(self, principal: str, topic: str) -> None:
        """Deletes the ACL that lets a principal read a topic."""
        named = (TOPIC, topic, LITERAL, principal, "*", READ, ALLOW)
        (found,) = (await self._client._send_request(DeleteAclsRequest(*named))).filter_responses
        assert [found[0], len(found[2])] == [0, 1]

    async def take_away_all(self, principal: str) -> None:
        """Deletes all ACLs of a principal."""
        await self._client._send_request(DeleteAclsRequest(ANY, None, ANY, principal, None, ANY, ANY))

    async def _read(self, names: Sequence[str]) -> Iterable[tuple[str, int]]:
        wanted = [(name, [(0, 0, 1_000)]) for name in names]
        answer = await self._client._send_request(FetchRequest(0, 0, 1_000_000, 0, wanted))
        return [(name, parts[0][1]) for name, parts in answer.topics]

    async def _write(self, names: Sequence[str]) -> Iterable[tuple[str, int]]:
        batch = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1_000)
        batch.append(0, None, b"key", b"{}", [])
        written = [(name, [(0, bytes(batch.build()))]) for name in names]
        answer = await self._client._send_request(ProduceRequest(None, -1, 5_000, written))
        return [(name, parts[0][1]) for name, parts in answer.topics]

    async def _describe(self, names: Sequence[str]) -> Iterable[tuple[str, int]]:
        answer = await self._client._send_request(MetadataRequest(list(names)))
        return [(topic[1], topic[0]) for topic in answer.topics]

    async def _create(self, names: Sequence[str]) -> Iterable[tuple[str, int]]:
        wanted: list[Any] = [(name, 1, 1, [], []) for name in names]
        answer = await self._client._send_request(CreateTopicsRequest(wanted, 5_000, True))
        return [(name, code) for name, code, _ in answer.topic_errors]

    async def _delete(self, names: Sequence[str]) -> Iterable[tuple[str, int]]:
        """Deletes the records before the first one, of which there are none."""
        answer = await self._client._send_request(
            DeleteRecordsRequest([(name, [(0, 0)]) for name in names], 5_000)
        )
        return [(topic[0], topic[1][0][2]) for topic in answer.topics]

    async def _alter(self, names: Sequence[str]) -> Iterable[tuple[str, int]]:
        wanted = [(name, (100, None)) for name in names]
        answer = await self._client._send_request(CreatePartitionsRequest(wanted, 5_000, True))
        return [(name, code) for name, code, _ in answer.topic_errors]

    async def _describe_configs(self, names: Sequence[str]) -> Iterable[tuple[str, int]]:
        resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
        found: list[Any] = await self._client.describe_configs(resources)
        return [(each[3], each[0]) for answer in found for each in answer.resources]

    async def _alter_configs(self, names: Sequence[str]) -> Iterable[tuple[str, int]]:
        wanted: list[Any] = [(TOPIC, name, []) for name in names]
        answer = await self._client._send_request(AlterConfigsRequest(wanted, validate_only=True))
        return [(each[3], each[0]) for each in answer.resources]
