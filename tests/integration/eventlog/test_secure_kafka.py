"""A Kafka with users and TLS: what is wrong with a connection is named, not only that there is none."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.stack import SecureServers
from trackside.contracts.envelope.topics import Topics
from trackside.embedded.kafka.certificates import Certificate, issue, new_authority
from trackside.embedded.kafka.secure import CA_KEY, new_password, write_password
from trackside.eventlog.clock import monotonic_s, now_ms
from trackside.eventlog.errors import TransientError
from trackside.eventlog.kafka.acls import Acl
from trackside.eventlog.kafka.kafka_acls import apply_acls
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.kafka.kafka_users import set_password
from trackside.eventlog.log import Outgoing, Reader
from trackside.eventlog.settings.kafka_settings import KafkaSettings
from trackside.eventlog.settings.secure_folder import CA

NAMED_WITHIN_S = 10.0


async def reason(kafka: KafkaSettings) -> str:
    """Returns what a client of these settings says, within 10 s."""
    async with KafkaLog(kafka, "test") as log:
        began_s = monotonic_s()
        with pytest.raises(TransientError) as refused:
            await log.ends("trackside.events")
        assert monotonic_s() - began_s < NAMED_WITHIN_S
    return str(refused.value)


async def read(reader: Reader, count: int) -> bool:
    """Reads a number of records."""
    found = 0
    async with asyncio.timeout(60):
        while found < count:
            found += len(await reader.read(1.0))
    return found == count


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


NO_TLS = "if the broker expects TLS, set TRACKSIDE_KAFKA_SECURITY_PROTOCOL"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"kafka_security_protocol": "PLAINTEXT"}, NO_TLS),
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


@asynccontextmanager
async def served(authority: Certificate, made: Certificate, folder: Path) -> AsyncIterator[str]:
    """Yields the address of a server that shows a certificate; no client sends it anything after that."""
    (folder / "served.pem").write_bytes(made.key + made.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "served.pem")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(-1)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


ANOTHER_HOST = "not valid for '127.0.0.1'.; expected one for the name in TRACKSIDE_KAFKA_BOOTSTRAP"


@pytest.mark.parametrize(
    ("hosts", "days", "sentence"),
    [
        (["127.0.0.1"], -1, "certificate has expired; the broker needs a new one"),
        (["kafka.example"], 1, ANOTHER_HOST),
    ],
)
async def test_a_certificate_that_has_expired_or_is_of_another_host_is_named(
    secure_stack: SecureServers, tmp_path: Path, hosts: Sequence[str], days: int, sentence: str
) -> None:
    secrets = secure_stack.secrets
    authority = Certificate((secrets / CA).read_bytes(), (secrets / CA_KEY).read_bytes())
    ends = datetime.fromtimestamp(now_ms() / 1000, UTC) + timedelta(days=days)
    async with served(authority, issue(authority, "broker", hosts, ends), tmp_path) as address:
        said = await reason(secure_stack.kafka("dispatcher").model_copy(update={"kafka_bootstrap": address}))
    assert f"no Kafka at {address}: the broker's certificate is refused: " in said
    assert sentence in said


async def test_a_client_goes_on_with_the_new_password_once_its_file_has_it(
    secure_stack: SecureServers, topic_prefix: str
) -> None:
    user, topic = "rotated", Topics(prefix=topic_prefix).heartbeats
    admin = secure_stack.kafka("admin")
    async with KafkaLog(admin, "test") as log:
        await log.ensure([topic])
        await log.preflight([topic])
    rights = [Acl(f"User:{user}", "topic", topic.name, False, each) for each in ("Read", "Write")]
    await apply_acls(admin, rights)
    record = Outgoing(b"key", b"value", ())
    async with KafkaLog(secure_stack.kafka(user), "test") as log:
        await log.append(topic.name, 0, [record])
        password = new_password()
        await set_password(admin, user, password)
        await log.append(topic.name, 0, [record])  # what is open stays open
        await log.close()  # as when the broker was restarted: what is asked next connects again
        with pytest.raises(TransientError, match=f"the broker refuses user {user}"):
            await log.append(topic.name, 0, [record])
        write_password(secure_stack.secrets, user, password)
        await log.append(topic.name, 0, [record])
        assert await read(log.reader({(topic.name, 0): 0}), 3)
