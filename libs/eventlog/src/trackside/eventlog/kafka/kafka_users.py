"""Passwords of Kafka's users (SCRAM): the client of aiokafka has no request for them."""

import hashlib
import secrets
from typing import Any

from aiokafka.errors import ClusterAuthorizationFailedError, for_code
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    CompactArray,
    CompactBytes,
    CompactString,
    Int8,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

from trackside.eventlog.errors import DeniedError, TransientError
from trackside.eventlog.kafka.kafka_topics import open_admin
from trackside.eventlog.settings.kafka_settings import KafkaSettings

MECHANISMS = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
"""The number of each mechanism in Kafka's protocol, and its hash."""
ITERATIONS = 8192
"""Rounds of the hash: Kafka's own tools make as many by default."""
SALT_BYTES = 24


class _AlterResponse(Response):  # type: ignore[misc]  # the client has no types
    API_KEY, API_VERSION = 51, 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "results",
            CompactArray(
                ("user", CompactString("utf-8")),
                ("error_code", Int16),
                ("error_message", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _Alter(RequestStruct):  # type: ignore[misc]
    API_KEY, API_VERSION = 51, 0
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = _AlterResponse
    SCHEMA = Schema(
        (
            "deletions",
            CompactArray(("name", CompactString("utf-8")), ("mechanism", Int8), ("tags", TaggedFields)),
        ),
        (
            "upsertions",
            CompactArray(
                ("name", CompactString("utf-8")),
                ("mechanism", Int8),
                ("iterations", Int32),
                ("salt", CompactBytes),
                ("salted_password", CompactBytes),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _SetPassword(Request[_Alter]):  # type: ignore[misc]
    API_KEY = 51

    def __init__(self, user: str, password: str, mechanism: str) -> None:
        self._user, self._password = user, password
        self._code, self._hash = MECHANISMS[mechanism]

    def build(self, request_struct_class: Any) -> Any:
        """Returns the request; the broker is sent a hash, never the password."""
        salt = secrets.token_bytes(SALT_BYTES)
        salted = hashlib.pbkdf2_hmac(self._hash, self._password.encode(), salt, ITERATIONS)
        return request_struct_class([], [(self._user, self._code, ITERATIONS, salt, salted, {})], {})


async def set_password(
    kafka: KafkaSettings | str, user: str, password: str, mechanism: str = "SCRAM-SHA-512"
) -> None:
    """Sets the password of a user of a broker, and makes the user if there is none of that name.

    A user has a password for each mechanism, SCRAM-SHA-256 or SCRAM-SHA-512. Connections that are open stay
    open. Raises DeniedError if `kafka` names a user that may not do that, and TransientError.
    """
    async with open_admin(kafka, f"the password of {user}") as admin:
        answer = await admin._send_request(_SetPassword(user, password, mechanism))
    for _user, code, text, _tags in answer.results:
        if for_code(code) is ClusterAuthorizationFailedError:
            raise DeniedError(f"this user may not set the password of {user}: use that of the administrator")
        if code:
            raise TransientError(
                f"the password of {user} was not set: {for_code(code).__name__} {text or ''}"
            )
