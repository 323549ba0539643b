import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic_settings import BaseSettings

from trackside.contracts.envelope.topics import Topics
from trackside.embedded.kafka.certificates import issue, new_authority
from trackside.eventlog.errors import TransientError
from trackside.eventlog.kafka.kafka_security import TokenCommand, TokenCommandError, client_options
from trackside.eventlog.settings.kafka_settings import KafkaSettings, kafka_settings
from trackside.eventlog.settings.settings import StackSettings, read_settings
from trackside.scheduler.settings import SchedulerSettings
from trackside.worker.settings import WorkerSettings

QUEUES, LIMITS = "TRACKSIDE_WORKER_QUEUES", "TRACKSIDE_SCHEDULER_QUEUE_LIMITS"
SCRAM = {"SECURITY_PROTOCOL": "SASL_SSL", "USER": "dispatcher"}


def refusal(kind: type[BaseSettings], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as refused:
        read_settings(kind)
    assert refused.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "variable", "value", "named"),
    [
        (StackSettings, "TRACKSIDE_HEALTH_PORT", "99999", "'99999'"),
        (StackSettings, "TRACKSIDE_HEALTH_PORT", "http", "'http'"),
        (StackSettings, "TRACKSIDE_KAFKA_BOOTSTRAP", "", "''"),
        (StackSettings, "TRACKSIDE_TOPIC_PREFIX", "my team.", "not the beginning of a topic's name"),
        (WorkerSettings, QUEUES, "gpu,big ones", "'big ones' is not an identifier"),
        (WorkerSettings, QUEUES, " , ", "' , ' is not an identifier"),
        (WorkerSettings, QUEUES, "a..b", "'a..b' is not an identifier"),
        (WorkerSettings, "TRACKSIDE_WORKER_ID", "my worker", "not an identifier"),
        (SchedulerSettings, LIMITS, "big ones=3", "'big ones' is not the name of"),
        (SchedulerSettings, LIMITS, "a..b=3", "'a..b' is not the name of"),
    ],
)
def test_a_bad_value_names_its_variable(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kind: type[BaseSettings],
    variable: str,
    value: str,
    named: str,
) -> None:
    monkeypatch.setenv(variable, value)
    said = refusal(kind, capsys)
    assert said.startswith(f"{variable}: ") and named in said
    assert ("letters, digits" in said) == (named[0] != "'" or " is not " in named)


def test_names_with_spaces_around_them_are_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(QUEUES, " gpu , night ,")
    assert read_settings(WorkerSettings).queue_names == ["gpu", "night"]
    monkeypatch.setenv(LIMITS, "gpu = 10, night=2")
    assert read_settings(SchedulerSettings).policy.queue_limits == {"gpu": 10, "night": 2}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("service", "variable"),
    [("dispatcher", "TRACKSIDE_DISPATCHER_TUNER_TIME_LIMIT_S"), ("scheduler", "TRACKSIDE_SCHEDULER_LEASE_S")],
)
def test_a_service_with_a_bad_setting_exits_with_2(service: str, variable: str) -> None:
    command, env = [sys.executable, "-m", f"trackside.{service}"], {**os.environ, variable: "soon"}
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"{variable}: ")


def test_the_password_of_postgres_may_be_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("a/b@c: d\n")
    monkeypatch.setenv("TRACKSIDE_POSTGRES_DSN", "postgresql://trackside@postgres:5432/trackside")
    monkeypatch.setenv("TRACKSIDE_POSTGRES_PASSWORD_FILE", str(secret))
    read = read_settings(StackSettings)
    assert read.postgres_dsn == "postgresql://trackside:a%2Fb%40c%3A%20d@postgres:5432/trackside"


@pytest.mark.parametrize(
    ("dsn", "content", "variable", "reason"),
    [
        ("postgresql://u@h/d", None, "TRACKSIDE_POSTGRES_PASSWORD_FILE", "No such file or directory"),
        ("postgresql://u@h/d", "\n", "TRACKSIDE_POSTGRES_PASSWORD_FILE", "the file is empty"),
        ("postgresql://u:p@h/d", "secret\n", "TRACKSIDE_POSTGRES_DSN", "a user and without a password"),
        ("postgresql://h/d", "secret\n", "TRACKSIDE_POSTGRES_DSN", "a user and without a password"),
    ],
)
def test_a_password_file_that_cannot_be_used_is_refused_without_showing_a_password(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    dsn: str,
    content: str | None,
    variable: str,
    reason: str,
) -> None:
    path = tmp_path / "password"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("TRACKSIDE_POSTGRES_DSN", dsn)
    monkeypatch.setenv("TRACKSIDE_POSTGRES_PASSWORD_FILE", str(path))
    written = refusal(StackSettings, capsys)
    assert written.startswith(f"{variable}: ") and reason in written
    assert "u:p" not in written and "secret" not in written


@pytest.fixture
def files(tmp_path: Path) -> Path:
    authority = new_authority("test")
    client, other = issue(authority, "client", []), issue(authority, "other", [])
    content_of = {"password": b"hunter2\n", "empty": b"", "text": b"no certificate\n"}
    content_of |= {"ca.pem": authority.certificate, "both.pem": client.certificate + client.key}
    content_of |= {"client.pem": client.certificate, "client.key": client.key, "other.key": other.key}
    for name, content in content_of.items():
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(0o600)
    (tmp_path / "open").write_bytes(b"hunter2\n")
    (tmp_path / "open").chmod(0o644)
    return tmp_path


Given = Callable[[dict[str, str]], None]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch, files: Path) -> Given:
    def set_them(variables: dict[str, str]) -> None:
        for name, value in variables.items():
            found = str(files / value) if name.endswith("_FILE") else value
            monkeypatch.setenv(f"TRACKSIDE_KAFKA_{name}", found)

    return set_them


def variables(protocol: str, **others: str) -> dict[str, str]:
    return ({"SECURITY_PROTOCOL": protocol} if protocol else {}) | others


@pytest.mark.parametrize(
    ("given_variables", "sentence"),
    [
        (variables("TLS"), "TRACKSIDE_KAFKA_SECURITY_PROTOCOL: Input should be 'PLAINTEXT', 'SSL'"),
        (variables("", SASL_MECHANISM="GSSAPI"), "TRACKSIDE_KAFKA_SASL_MECHANISM: Input should be 'PLAIN'"),
        (SCRAM | {"PASSWORD_FILE": "gone"}, "_PASSWORD_FILE: the file can't be read: No such file"),
        (SCRAM | {"PASSWORD_FILE": "empty"}, "TRACKSIDE_KAFKA_PASSWORD_FILE: the file is empty"),
        (SCRAM | {"PASSWORD_FILE": "open"}, "(mode 0644): expected 0600, as `chmod 600 "),
        (SCRAM | {"PASSWORD_FILE": "."}, "TRACKSIDE_KAFKA_PASSWORD_FILE: not a file"),
        (SCRAM, "TRACKSIDE_KAFKA_PASSWORD_FILE is not set: expected it for SASL_SSL with SCRAM-SHA-512"),
        (variables("SASL_SSL", PASSWORD_FILE="password"), "TRACKSIDE_KAFKA_USER is not set"),
        (variables("SASL_SSL", SASL_MECHANISM="OAUTHBEARER"), "TRACKSIDE_KAFKA_TOKEN_COMMAND is not set"),
        (variables("SSL", SSL_CA_FILE="gone"), "gone: the file can't be read: No such file"),
        (variables("SSL", SSL_CA_FILE="text"), "text: the file has no certificate in PEM"),
        (
            variables("SSL", SSL_CERTIFICATE_FILE="client.pem", SSL_KEY_FILE="other.key"),
            "the key is not that of the certificate",
        ),
        (
            variables("SSL", SSL_CERTIFICATE_FILE="client.pem"),
            "the file has no certificate with its key in PEM",
        ),
        (variables("SSL", SSL_KEY_FILE="client.key"), "CERTIFICATE_FILE is not set: expected"),
    ],
)
def test_what_can_not_be_used_is_named_before_a_connection_is_tried(
    given: Given, capsys: pytest.CaptureFixture[str], given_variables: dict[str, str], sentence: str
) -> None:
    given(given_variables)
    said = refusal(StackSettings, capsys)
    assert sentence in said and "TRACKSIDE_KAFKA_" in said
    assert "hunter2" not in said


PLAIN = {"SASL_MECHANISM": "PLAIN", "USER": "me", "PASSWORD_FILE": "password"}


@pytest.mark.parametrize(
    ("given_variables", "sentence"),
    [
        (
            variables("SASL_PLAINTEXT", **PLAIN),
            "with the mechanism PLAIN sends the password to Kafka unencrypted: expected SASL_SSL",
        ),
        ({"USER": "me"}, "_KAFKA_USER has no effect with TRACKSIDE_KAFKA_SECURITY_PROTOCOL=PLAINTEXT"),
        ({"SSL_CA_FILE": "ca.pem"}, "TRACKSIDE_KAFKA_SSL_CA_FILE has no effect"),
    ],
)
def test_what_is_less_safe_than_it_looks_is_a_warning(
    given: Given, capsys: pytest.CaptureFixture[str], given_variables: dict[str, str], sentence: str
) -> None:
    given(given_variables)
    read_settings(StackSettings)
    assert sentence in capsys.readouterr().err


def test_a_client_at_an_address_alone_takes_its_security_from_the_environment(given: Given) -> None:
    files = {"PASSWORD_FILE": "password", "SSL_CA_FILE": "ca.pem", "SSL_CERTIFICATE_FILE": "both.pem"}
    given(SCRAM | files)
    options = client_options(kafka_settings("broker:9093"))
    assert options.pop("ssl_context").get_ca_certs()
    connection = {"bootstrap_servers": "broker:9093", "security_protocol": "SASL_SSL"}
    login = {"sasl_plain_username": "dispatcher", "sasl_plain_password": "hunter2"}
    assert options == {**connection, **login, "sasl_mechanism": "SCRAM-SHA-512"}


def test_each_new_client_has_the_password_that_the_file_has_then(given: Given, files: Path) -> None:
    given(SCRAM | {"PASSWORD_FILE": "password"})
    settings = kafka_settings("broker:9093")
    (files / "password").write_text("hunter3\n")
    assert client_options(settings)["sasl_plain_password"] == "hunter3"
    (files / "password").unlink()  # as while it is replaced
    with pytest.raises(TransientError, match=r"TRACKSIDE_KAFKA_PASSWORD_FILE=.*can't be read"):
        client_options(settings)


async def test_a_token_is_the_first_line_that_the_command_prints(files: Path) -> None:
    assert await TokenCommand("printf 'abc.def\\nmore\\n'").token() == "abc.def"
    with pytest.raises(TokenCommandError, match=r"sh printed no token .exit 3.: no such tenant"):
        await TokenCommand("sh -c 'echo no such tenant >&2; exit 3'").token()
    with pytest.raises(TokenCommandError, match="no-such-program can't be run for a token: No such file"):
        await TokenCommand("no-such-program").token()


def test_the_topics_of_a_service_are_those_of_its_prefix_whatever_its_security() -> None:
    settings = StackSettings.model_construct(topic_prefix="team.")
    assert settings.topics == Topics(prefix="team.")
    assert isinstance(settings, KafkaSettings) and str(settings) == "127.0.0.1:9092"
