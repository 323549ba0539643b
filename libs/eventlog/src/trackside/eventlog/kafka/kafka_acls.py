"""Lists and adds the ACLs of a Kafka cluster: aiokafka has the requests, but its client doesn't send them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import ClusterAuthorizationFailedError, KafkaError, SecurityDisabled, for_code
from aiokafka.protocol.admin import CreateAclsRequest, DescribeAclsRequest

from trackside.eventlog.errors import DeniedError, PreflightError, TransientError
from trackside.eventlog.kafka.acls import Acl, AclReport, compare
from trackside.eventlog.kafka.client_lifecycle import start_client
from trackside.eventlog.kafka.kafka_probe import reason_of
from trackside.eventlog.kafka.kafka_security import client_options
from trackside.eventlog.settings.kafka_settings import KafkaSettings, kafka_settings

ANSWER_S = 30.0
LOOK_AGAIN_S = 0.02
ANY, ALLOW, DENY = 1, 3, 2
LITERAL, PREFIXED = 3, 4
KINDS = {2: "topic", 3: "group", 4: "cluster", 5: "transactional-id", 6: "delegation-token", 7: "user"}
OPERATIONS = {
    2: "All",
    3: "Read",
    4: "Write",
    5: "Create",
    6: "Delete",
    7: "Alter",
    8: "Describe",
    9: "ClusterAction",
    10: "DescribeConfigs",
    11: "AlterConfigs",
    12: "IdempotentWrite",
    13: "CreateTokens",
    14: "DescribeTokens",
}
"""The numbers of Kafka's protocol, and the names that its tools have for them."""
_KIND_CODES = {name: code for code, name in KINDS.items()}
_OPERATION_CODES = {name: code for code, name in OPERATIONS.items()}
_Creation = tuple[int, str, int, str, str, int, int]


class _CreateAcls(CreateAclsRequest):  # type: ignore[misc]  # the client has no types
    """Creates several ACLs in one request; the client's own request has one."""

    def __init__(self, creations: list[_Creation]) -> None:
        self._creations = creations

    def build(self, request_struct_class: Any) -> Any:
        """Returns the request in one version of the protocol; version 1 has patterns first."""
        return request_struct_class(self._creations)


async def apply_acls(kafka: KafkaSettings | str, acls: Sequence[Acl]) -> AclReport:
    """Adds the ACLs that are missing; returns what was missing, and what permits more or denies.

    Nothing is removed. Returns when the broker that was asked uses them, which is a moment after it has
    accepted them. Raises DeniedError, PreflightError if the broker has no authorizer, and
    TransientError.
    """
    async with _admin(kafka) as admin:
        report = compare(acls, await _existing(admin))
        creations = [_creation(acl) for acl in report.missing]
        if creations:
            answer = await admin._send_request(_CreateAcls(creations))
            for code, text in answer.creation_responses:
                _raise_for(code, text)
            while not set(report.missing) <= await _existing(admin):  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(LOOK_AGAIN_S)
        return report


async def check_acls(kafka: KafkaSettings | str, acls: Sequence[Acl]) -> AclReport:
    """Returns how the broker's ACLs differ from these; changes nothing. Raises as `apply_acls` does."""
    async with _admin(kafka) as admin:
        return compare(acls, await _existing(admin))


async def _existing(admin: AIOKafkaAdminClient) -> set[Acl]:
    answer = await admin._send_request(DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY))
    _raise_for(answer.error_code, answer.error_message)
    return {
        Acl(
            principal,
            KINDS.get(kind, str(kind)),
            name,
            pattern == PREFIXED,
            OPERATIONS.get(operation, str(operation)),
            host,
            permission != DENY,
        )
        for kind, name, pattern, found in answer.resources
        for principal, host, operation, permission in found
    }


def _creation(acl: Acl) -> _Creation:
    pattern, permission = (PREFIXED if acl.prefixed else LITERAL), (ALLOW if acl.allows else DENY)
    operation = _OPERATION_CODES[acl.operation]
    return _KIND_CODES[acl.kind], acl.name, pattern, acl.principal, acl.host, operation, permission


def _raise_for(code: int, text: str | None) -> None:
    if not code:
        return
    kind = for_code(code)
    if kind is ClusterAuthorizationFailedError:
        raise DeniedError(
            "this user may not list or change ACLs (Describe and Alter on the cluster): use that of the "
            "administrator, one of `super.users` of the broker"
        )
    if kind is SecurityDisabled:
        raise PreflightError(
            "the broker has no authorizer, so every client may do everything: set `authorizer.class.name` to "
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer, and `super.users`"
        )
    raise TransientError(f"ACLs were refused: {kind.__name__} {text or ''}".rstrip())


@asynccontextmanager
async def _admin(kafka: KafkaSettings | str) -> AsyncIterator[AIOKafkaAdminClient]:
    settings = kafka_settings(kafka)
    admin = AIOKafkaAdminClient(
        **client_options(settings), client_id="trackside-setup", request_timeout_ms=int(ANSWER_S * 1000)
    )
    try:
        async with asyncio.timeout(ANSWER_S):
            await start_client(admin)
            yield admin
    except (KafkaError, OSError, TimeoutError) as error:
        reason = await reason_of(error, settings)
        raise TransientError(f"ACLs at {settings.kafka_bootstrap}: {reason}") from error
    finally:
        await admin.close()
