"""Every protocol and mechanism of the settings, on a broker that offers all, and what refusals say."""

import base64
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.eventlog.test_another_cluster import broker_of
from trackside.embedded.kafka import kafka as embedded_kafka
from trackside.embedded.kafka.certificates import Certificate, issue
from trackside.embedded.kafka.secure import CA_KEY, make_secrets
from trackside.embedded.ports import HOST, free_ports
from trackside.eventlog.clock import now_ms
from trackside.eventlog.errors import TransientError
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.kafka.kafka_users import set_password
from trackside.eventlog.settings.kafka_settings import KafkaSettings
from trackside.eventlog.settings.secure_folder import CA, settings_of

pytestmark = pytest.mark.long

PASSWORD = "of-the-test"
LISTENER = """
listener.name.NAME.plain.sasl.jaas.config=\
 org.apache.kafka.common.security.plain.PlainLoginModule required user_ada="PASSWORD";
listener.name.NAME.scram-sha-256.sasl.jaas.config=\
 org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.NAME.scram-sha-512.sasl.jaas.config=\
 org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.NAME.oauthbearer.sasl.jaas.config=\
 org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required\
 unsecuredLoginStringClaim_sub="b";
"""


@dataclass(frozen=True)
class Broker:
    """A broker with a listener of each kind, by what it expects: tls-user, user, tls-certificate."""

    folder: Path
    ports: dict[str, int]

    def settings(self, listener: str, protocol: str, **more: Any) -> KafkaSettings:
        files = {"ssl_ca_file": self.folder / "secure" / CA} if protocol.endswith("SSL") else {}
        given = {f"kafka_{name}": value for name, value in (files | more).items()}
        return KafkaSettings(
            kafka_bootstrap=f"{HOST}:{self.ports[listener]}", **{"kafka_security_protocol": protocol, **given}
        )

    def user(self, mechanism: str) -> dict[str, Any]:
        return {"sasl_mechanism": mechanism, "user": "ada", "password_file": self.folder / "password"}

    def token(self, command: str) -> dict[str, Any]:
        return {"sasl_mechanism": "OAUTHBEARER", "token_command": command}

    def certificate(self) -> dict[str, Any]:
        return {"ssl_certificate_file": self.folder / "ada.pem"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    folder = tmp_path_factory.mktemp("mechanisms")
    secure = folder / "secure"
    make_secrets(secure, [])
    authority = Certificate((secure / CA).read_bytes(), (secure / CA_KEY).read_bytes())
    made = issue(authority, "ada", [])
    for name, content in (("ada.pem", made.certificate + made.key), ("password", PASSWORD.encode())):
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o600)
    first, controller, user, certificate = free_ports(4)
    cluster = base64.urlsafe_b64encode(uuid.UUID(int=7).bytes).decode().rstrip("=")
    spec, _ = embedded_kafka.prepare(
        folder / "kafka", first, controller, lambda _: None, cluster=cluster, short_lived=True, secure=secure
    )
    properties = folder / "kafka" / "server.properties"
    others = f",USER://{HOST}:{user},MTLS://{HOST}:{certificate}"
    text = properties.read_text().replace(f"SASL_SSL://{HOST}:{first}", f"SASL_SSL://{HOST}:{first}{others}")
    text = text.replace(":SASL_SSL\n", ":SASL_SSL,USER:SASL_PLAINTEXT,MTLS:SSL\n")
    text = text.replace("enabled.mechanisms=", "enabled.mechanisms=SCRAM-SHA-256,PLAIN,OAUTHBEARER,")
    text += "listener.name.mtls.ssl.client.auth=required\n"
    for name in ("sasl_ssl", "user"):
        text += LISTENER.replace("NAME", name).replace("PASSWORD", PASSWORD)
    properties.write_text(text)
    with broker_of(spec, "kafka-tls", first):
        yield Broker(folder, {"tls-user": first, "user": user, "tls-certificate": certificate})


def token(subject: str) -> str:
    """Returns a token that is not signed, which a broker takes that is not told who signs them."""
    now_s = now_ms() // 1000
    parts = ({"alg": "none"}, {"sub": subject, "iat": now_s, "exp": now_s + 3600})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, ""])


async def ask(kafka: KafkaSettings) -> str:
    async with KafkaLog(kafka, "test") as log:
        return await log.cluster_id()


@pytest.mark.filterwarnings("ignore::UserWarning")
async def test_every_protocol_and_mechanism_is_let_in(broker: Broker) -> None:
    folder, first = broker.folder / "secure", f"{HOST}:{broker.ports['tls-user']}"
    admin = settings_of(folder, first, "admin")
    cluster = await ask(admin)
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        await set_password(admin, "ada", PASSWORD, mechanism)
        assert await ask(broker.settings("tls-user", "SASL_SSL", **broker.user(mechanism))) == cluster
    assert await ask(broker.settings("tls-user", "SASL_SSL", **broker.user("PLAIN"))) == cluster
    assert await ask(broker.settings("user", "SASL_PLAINTEXT", **broker.user("PLAIN"))) == cluster
    found = broker.token(f"printf %s {token('ada')}")
    assert await ask(broker.settings("tls-user", "SASL_SSL", **found)) == cluster
    assert await ask(broker.settings("tls-certificate", "SSL", **broker.certificate())) == cluster


NO_TOKEN = "false printed no token (exit 1): nothing on standard"
BAD_TOKEN = "refuses the token of TRACKSIDE_KAFKA_TOKEN_COMMAND"
NO_USER = "it may expect a user: TRACKSIDE_KAFKA_SECURITY_PROTOCOL is PLAINTEXT"
NO_CERTIFICATE = "a certificate of this client (TRACKSIDE_KAFKA_SSL_CERTIFICATE_FILE)"


@pytest.mark.parametrize(
    ("listener", "protocol", "more", "sentence"),
    [
        ("tls-user", "SASL_SSL", {"token_command": "echo abc"}, BAD_TOKEN),
        ("tls-user", "SASL_SSL", {"token_command": "false"}, NO_TOKEN),
        ("user", "PLAINTEXT", {}, NO_USER),
        ("user", "SSL", {}, "the connection was closed by the broker; it may expect a user (SASL_SSL)"),
        ("tls-certificate", "SSL", {}, NO_CERTIFICATE),
    ],
)
async def test_what_is_not_let_in_is_told_what_is_missing(
    broker: Broker, listener: str, protocol: str, more: dict[str, Any], sentence: str
) -> None:
    mechanism = {"sasl_mechanism": "OAUTHBEARER"} if more else {}
    with pytest.raises(TransientError) as refused:
        await ask(broker.settings(listener, protocol, **mechanism, **more))
    assert sentence in str(refused.value)


async def test_a_user_without_tls_at_a_listener_for_certificates_is_told_so(broker: Broker) -> None:
    both = broker.user("PLAIN") | broker.certificate()
    with pytest.raises(TransientError, match="expects no user: set TRACKSIDE_KAFKA_SECURITY_PROTOCOL to SSL"):
        await ask(broker.settings("tls-certificate", "SASL_SSL", **both))
