"""Asks a broker over a connection of its own, to say why there is none: a client says only that it failed."""

import asyncio
import ssl
import struct

from aiokafka.conn import create_conn
from aiokafka.errors import (
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    NodeNotReadyError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka.protocol.metadata import MetadataRequest

from trackside.eventlog.errors import TransientError, error_text
from trackside.eventlog.kafka.kafka_security import TokenCommandError, client_options
from trackside.eventlog.reachability import WITHIN_S
from trackside.eventlog.settings.kafka_settings import KafkaSettings, kafka_settings

PROBE_S = 2.0
"""How long the reason of a failed connection is looked for, in s."""
_CORRELATION_ID = 1
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, _CORRELATION_ID, -1)
"""The request that every broker answers to everyone: which requests it knows."""
_EXPIRED, _NOT_YET_VALID, _OTHER_NAME, _OTHER_ADDRESS = 10, 9, 62, 64
PROTOCOL = "TRACKSIDE_KAFKA_SECURITY_PROTOCOL"


async def ask_kafka(kafka: KafkaSettings | str) -> None:
    """Asks one broker after the other until one answers; raises an OSError or ValueError of the last one."""
    kafka = kafka_settings(kafka)
    *others, last = kafka.kafka_bootstrap.split(",")
    for address in others:
        try:
            async with asyncio.timeout(WITHIN_S / (len(others) + 1)):
                await _ask_broker(address.strip(), kafka)
            return
        except (OSError, EOFError, ValueError):
            continue
    await _ask_broker(last.strip(), kafka)


async def reason_of(error: BaseException, kafka: KafkaSettings) -> str:
    """Returns why a client failed; of one that found no broker, what a connection of our own was told."""
    if not isinstance(error, (KafkaConnectionError, NodeNotReadyError)):
        return error_text(error)
    try:
        async with asyncio.timeout(PROBE_S):
            await ask_kafka(kafka)
    except (OSError, EOFError, ValueError) as found:
        return error_text(found)
    return error_text(error)


async def _ask_broker(address: str, kafka: KafkaSettings) -> None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"{address!r} is not a host:port")
    host = host.strip("[]")
    if not kafka.uses_tls:
        await _ask_whether_kafka(host, int(port))
    try:
        options = client_options(kafka)
        del options["bootstrap_servers"]
        connection = await create_conn(host, int(port), client_id="trackside-probe", **options)
    except (KafkaError, OSError, TransientError) as error:
        raise _explained(error, kafka) from error
    try:
        answer = await connection.send(MetadataRequest([]))  # refused to who should have named a user
        if not answer.brokers and kafka.kafka_sasl_mechanism == "OAUTHBEARER":  # aiokafka takes it for a yes
            raise SaslAuthenticationFailed("invalid_token")
    except KafkaError as error:
        raise _explained(error, kafka) from error
    finally:
        await connection.close()


async def _ask_whether_kafka(host: str, port: int) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(_API_VERSIONS)
        _size, answered = struct.unpack(">ii", await reader.readexactly(8))
        if answered != _CORRELATION_ID:
            raise ValueError("what answers there is not Kafka")
    except (asyncio.IncompleteReadError, ConnectionResetError) as error:
        raise ConnectionError(
            f"the connection was closed without an answer; if the broker expects TLS, set {PROTOCOL} to SSL "
            "or SASL_SSL"
        ) from error
    finally:
        writer.transport.abort()


def _explained(error: BaseException, kafka: KafkaSettings) -> OSError:
    match error:
        case TimeoutError():
            return TimeoutError()
        case ssl.SSLCertVerificationError():
            return ConnectionError(
                f"the broker's certificate is refused: {error.verify_message}; {_remedy(error, kafka)}"
            )
        case ssl.SSLError():
            return ConnectionError(
                f"no TLS with the broker: {error.reason or error}; if it expects none, set {PROTOCOL} to "
                "PLAINTEXT or SASL_PLAINTEXT"
            )
        case ConnectionRefusedError():
            return error
        case SaslAuthenticationFailed():
            return ConnectionError(_refused(error, kafka))
        case UnsupportedSaslMechanismError():
            return ConnectionError(
                f"the broker doesn't offer TRACKSIDE_KAFKA_SASL_MECHANISM={kafka.kafka_sasl_mechanism}"
            )
        case IllegalSaslStateError():
            return ConnectionError(
                f"the broker expects no user: set {PROTOCOL} to {'SSL' if kafka.uses_tls else 'PLAINTEXT'}"
            )
        case KafkaConnectionError() | ConnectionResetError():
            return ConnectionError(f"the connection was closed by the broker; {_closed(kafka)}")
        case TokenCommandError() | TransientError() | OSError():
            return ConnectionError(error_text(error))
    return ConnectionError(f"{type(error).__name__}: {error_text(error)}")


def _remedy(error: ssl.SSLCertVerificationError, kafka: KafkaSettings) -> str:
    match error.verify_code:
        case code if code in (_EXPIRED, _NOT_YET_VALID):
            return "the broker needs a new one"
        case code if code in (_OTHER_NAME, _OTHER_ADDRESS):
            return "expected one for the name in TRACKSIDE_KAFKA_BOOTSTRAP"
    trusted = kafka.kafka_ssl_ca_file
    return f"expected one signed by a CA in {trusted or 'the certificates of the system'}" + (
        " (TRACKSIDE_KAFKA_SSL_CA_FILE)" if trusted else "; set TRACKSIDE_KAFKA_SSL_CA_FILE"
    )


def _refused(error: KafkaError, kafka: KafkaSettings) -> str:
    reason = str(error.args[0]) if error.args else "authentication failed"
    if kafka.kafka_sasl_mechanism == "OAUTHBEARER":
        return f"the broker refuses the token of TRACKSIDE_KAFKA_TOKEN_COMMAND: {reason}"
    return (
        f"the broker refuses user {kafka.kafka_user}: {reason}; check the password in "
        f"{kafka.kafka_password_file} (TRACKSIDE_KAFKA_PASSWORD_FILE)"
    )


def _closed(kafka: KafkaSettings) -> str:
    if kafka.uses_sasl:
        return f"it may expect TLS: {PROTOCOL} is {kafka.kafka_security_protocol}"
    if kafka.uses_tls:
        return (
            "it may expect a user (SASL_SSL), a certificate of this client "
            "(TRACKSIDE_KAFKA_SSL_CERTIFICATE_FILE), or no TLS"
        )
    return f"it may expect a user: {PROTOCOL} is {kafka.kafka_security_protocol}, expected SASL_PLAINTEXT"
