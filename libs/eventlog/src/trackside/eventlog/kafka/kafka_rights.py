"""Asks a broker which rights this client lacks: a denied read is silent, so nothing else says so."""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    KafkaError,
    TopicAuthorizationFailedError,
)
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.types import Array, Boolean, Int16, Int32, Schema, String

from trackside.contracts.envelope.topics import HOST
from trackside.contracts.wire.topic_rights import AclOperation, ResourceKind, Right
from trackside.eventlog.errors import DeniedError, TransientError, error_text
from trackside.eventlog.kafka.acls import Acl, commands_of
from trackside.eventlog.kafka.client_lifecycle import start_client
from trackside.eventlog.kafka.kafka_acls import OPERATIONS
from trackside.eventlog.kafka.kafka_security import client_options
from trackside.eventlog.settings.kafka_settings import KafkaSettings

ANSWER_S = 5.0
NAMELESS = "User:NAME"
"""The principal of a client with a certificate or a token: the broker alone knows its name."""
DENIALS = (TopicAuthorizationFailedError, GroupAuthorizationFailedError, ClusterAuthorizationFailedError)


class _MetadataResponse(Response):  # type: ignore[misc]  # the client has no types
    API_KEY = 3
    API_VERSION = 8
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", Array(("node_id", Int32), ("host", String()), ("port", Int32), ("rack", String()))),
        ("cluster_id", String()),
        ("controller_id", Int32),
        (
            "topics",
            Array(
                ("error_code", Int16),
                ("topic", String()),
                ("is_internal", Boolean),
                (
                    "partitions",
                    Array(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", Array(Int32)),
                        ("isr", Array(Int32)),
                        ("offline_replicas", Array(Int32)),
                    ),
                ),
                ("authorized_operations", Int32),
            ),
        ),
        ("cluster_authorized_operations", Int32),
    )


class _MetadataRequestStruct(RequestStruct):  # type: ignore[misc]
    API_KEY = 3
    API_VERSION = 8
    RESPONSE_TYPE = _MetadataResponse
    SCHEMA = Schema(
        ("topics", Array(String())),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
    )


class _RightsRequest(Request[_MetadataRequestStruct]):  # type: ignore[misc]
    """Asks for topics with what the client may do with each; version 8 has that first."""

    API_KEY = 3

    def __init__(self, topics: Sequence[str]) -> None:
        self._topics = list(topics)

    def build(self, request_struct_class: Any) -> Any:
        """Returns the request."""
        return request_struct_class(self._topics, False, False, True)


class RightsProbe:
    """Asks a broker about rights, over a connection of its own that stays open."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._kafka = kafka
        self._client: AIOKafkaAdminClient | None = None

    async def missing(self, needed: Collection[Right]) -> list[Right]:
        """Returns the rights to topics and groups, of those that are needed, that this client lacks.

        Of a prefix, one name is asked about. Raises TransientError.
        """
        try:
            async with asyncio.timeout(ANSWER_S):
                client = await self._started()
                missing = await _topic_rights(client, needed)
                return sorted(missing + await _group_rights(client, needed))
        except (KafkaError, OSError, TimeoutError) as error:
            await self.close()
            raise TransientError(f"rights at {self._kafka.kafka_bootstrap}: {error_text(error)}") from error

    async def close(self) -> None:
        """Closes the connection."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _started(self) -> AIOKafkaAdminClient:
        if self._client is None:
            client = AIOKafkaAdminClient(
                **client_options(self._kafka),
                client_id="trackside-rights",
                request_timeout_ms=int(ANSWER_S * 1000),
            )
            try:
                await start_client(client)
            except BaseException:
                await client.close()
                raise
            self._client = client
        return self._client


async def _topic_rights(client: AIOKafkaAdminClient, needed: Collection[Right]) -> list[Right]:
    topics = {_example(right): right for right in needed if right.kind is ResourceKind.TOPIC}
    if not topics:
        return []
    answer = await client._send_request(_RightsRequest(sorted(topics)))
    allowed = {topic[1]: _operations(topic) for topic in answer.topics}
    return [
        right
        for right in needed
        if right.kind is ResourceKind.TOPIC and right.operation not in allowed.get(_example(right), ())
    ]


async def _group_rights(client: AIOKafkaAdminClient, needed: Iterable[Right]) -> list[Right]:
    missing = []
    for right in needed:
        if right.kind is ResourceKind.GROUP and not right.prefixed:
            answer = await client._send_request(FindCoordinatorRequest(right.name, 0))
            if answer.error_code == GroupAuthorizationFailedError.errno:
                missing.append(right)
    return missing


def _example(right: Right) -> str:
    return right.name + HOST if right.prefixed else right.name


def _operations(topic: Sequence[Any]) -> set[str]:
    """Returns what is allowed with a topic of the answer; nothing where even its existence is secret."""
    if topic[0] == TopicAuthorizationFailedError.errno:
        return set()
    if topic[-1] < 0:  # not said
        return {operation.value for operation in AclOperation}
    return {name for code, name in OPERATIONS.items() if topic[-1] >> code & 1}


def principal_of(kafka: KafkaSettings) -> str:
    """Returns the broker's name for this client, `User:NAME` where only the broker knows it."""
    named = kafka.uses_sasl and kafka.kafka_user
    if kafka.kafka_security_protocol == "PLAINTEXT":
        return "User:ANONYMOUS"
    return f"User:{kafka.kafka_user}" if named else NAMELESS


def sentences(kafka: KafkaSettings, missing: Iterable[Right]) -> list[str]:
    """Returns a sentence for each resource that rights are missing to, with the line that grants them."""
    principal = principal_of(kafka)
    acls = [
        Acl(principal, right.kind.value, right.name, right.prefixed, right.operation.value)
        for right in missing
    ]
    lines = commands_of(acls, kafka.kafka_bootstrap)
    held: dict[tuple[str, str, bool], list[str]] = {}
    for acl in acls:
        held.setdefault((acl.kind, acl.name, acl.prefixed), []).append(acl.operation)
    return [
        f"{principal} may not {', '.join(operations)} {kind} {name}{'*' * prefixed}; to grant it: {line}"
        for ((kind, name, prefixed), operations), line in zip(held.items(), lines, strict=True)
    ]


def denial(kafka: KafkaSettings, error: BaseException, topic: str, operation: AclOperation) -> str:
    """Returns the sentence that an error deserves which says that the broker denied an operation, else ""."""
    if not isinstance(error, DENIALS):
        return ""
    return sentences(kafka, [Right("", ResourceKind.TOPIC, topic, False, operation)])[0]


def raise_if_denied(kafka: KafkaSettings, error: BaseException, topic: str, operation: AclOperation) -> None:
    """Raises DeniedError if an error says that the broker denied an operation."""
    if sentence := denial(kafka, error, topic, operation):
        raise DeniedError(sentence) from error
