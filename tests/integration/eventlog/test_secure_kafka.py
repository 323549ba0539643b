"""A Kafka with users and TLS: what is wrong with a connection is named, not only that there is none."""

import asyncio
from pathlib import Path

import pytest

from tests.stack import SecureServers
from trackside.contracts.topics import Topics
from trackside.embedded.certificates import new_authority
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.errors import TransientError
from trackside.eventlog.kafka import KafkaLog
from trackside.eventlog.kafka_settings import KafkaSettings
from trackside.eventlog.log import Outgoing

NAMED_WITHIN_S = 10.0


async def reason(kafka: KafkaSettings) -> str:
    """Returns what a client of these settings says, within 10 s."""
    async with KafkaLog(kafka, "test") as log:
        began_s = monotonic_s()
        with pytest.raises(TransientError) as refused:
            await log.ends("trackside.events")
        assert monotonic_s() - began_s < NAMED_WITHIN_S
    return str(refused.value)


async def test_a_user_appends_and_reads_over_tls(secure_stack: SecureServers, topic_prefix: str) -> None:
    topic = Topics(prefix=topic_prefix).heartbeats
    async with KafkaLog(secure_stack.kafka("admin"), "test") as log:
        await log.ensure([topic])
        await log.preflight([topic])
        done = await log.append(topic.name, 0, [Outgoing(b"key", b"value", ())])
        reader = log.reader({(topic.name, 0): done.offset})
        async with asyncio.timeout(60):
            while not (entries := await reader.read(1.0)):
                continue
        assert [entry.value for entry in entries] == [b"value"]


async def test_a_wrong_password_names_the_user_and_the_file(
    secure_stack: SecureServers, tmp_path: Path
) -> None:
    wrong = tmp_path / "password"
    wrong.write_text("not-it\n")
    wrong.chmod(0o600)
    kafka = secure_stack.kafka("dispatcher").model_copy(update={"kafka_password_file": wrong})
    said = await reason(kafka)
    assert f"no Kafka at {secure_stack.kafka_bootstrap}: the broker refuses user dispatcher" in said
    assert "invalid credentials" in said and str(wrong) in said
    assert "not-it" not in said


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"kafka_security_protocol": "PLAINTEXT"},
            "if the broker expects TLS, set TRACKSIDE_KAFKA_SECURITY_PROTOCOL",
        ),
        ({"kafka_security_protocol": "SSL"}, "it may expect a user (SASL_SSL)"),
        ({"kafka_sasl_mechanism": "PLAIN"}, "doesn't offer TRACKSIDE_KAFKA_SASL_MECHANISM=PLAIN"),
    ],
)
async def test_another_protocol_than_the_brokers_is_named(
    secure_stack: SecureServers, changes: dict[str, str], sentence: str
) -> None:
    assert sentence in await reason(secure_stack.kafka("dispatcher").model_copy(update=changes))


async def test_a_certificate_of_another_authority_is_named(
    secure_stack: SecureServers, tmp_path: Path
) -> None:
    other = tmp_path / "other.pem"
    other.write_bytes(new_authority("other").certificate)
    said = await reason(secure_stack.kafka("dispatcher").model_copy(update={"kafka_ssl_ca_file": other}))
    assert "the broker's certificate is refused: " in said
    assert f"expected one signed by a CA in {other} (TRACKSIDE_KAFKA_SSL_CA_FILE)" in said
