"""What every client of Kafka is given: the address, certificates and credentials, read from their files."""

import asyncio
import shlex
from typing import Any

from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaError

from trackside.artifacts.blobs.private_files import read_private
from trackside.contracts.envelope.redaction import redact
from trackside.eventlog.errors import TransientError
from trackside.eventlog.settings.kafka_settings import KafkaSettings
from trackside.eventlog.settings.password_file import password_in

TOKEN_S = 10.0
"""How long the command that prints a token may take, in s."""

LOOK_S = 5.0
"""How often files with credentials are read, in s, for a client that keeps those of its start."""


class TokenCommandError(KafkaError):  # type: ignore[misc]  # the client has no types
    """The command that should print a token has failed."""


class TokenCommand(AbstractTokenProvider):  # type: ignore[misc]
    """Runs a command for each new connection; the first line that it prints is the token."""

    def __init__(self, command: str) -> None:
        self._argv = shlex.split(command)

    async def token(self) -> str:
        """Returns a new token; raises TokenCommandError."""
        pipe = asyncio.subprocess.PIPE
        program = self._argv[0]
        try:
            process = await asyncio.create_subprocess_exec(
                *self._argv, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
            )
        except OSError as error:
            raise TokenCommandError(f"{program} can't be run for a token: {error.strerror}") from error
        try:
            async with asyncio.timeout(TOKEN_S):
                printed, errors = await process.communicate()
        except TimeoutError as error:
            raise TokenCommandError(f"{program} printed no token within {TOKEN_S:.0f} s") from error
        finally:
            if process.returncode is None:
                process.kill()
        token = printed.decode(errors="replace").partition("\n")[0].strip()
        if process.returncode or not token:
            reason = redact(errors.decode(errors="replace").strip()[-500:]) or "nothing on standard error"
            raise TokenCommandError(f"{program} printed no token (exit {process.returncode}): {reason}")
        return token


def client_options(kafka: KafkaSettings) -> dict[str, Any]:
    """Returns the arguments of a client of Kafka, with certificates and password as their files are now.

    Raises TransientError if a file can't be used: it may be about to be replaced.
    """
    options: dict[str, Any] = {
        "bootstrap_servers": kafka.kafka_bootstrap,
        "security_protocol": kafka.kafka_security_protocol,
    }
    try:
        if kafka.uses_tls:
            options["ssl_context"] = kafka.tls()
        if kafka.uses_sasl:
            options |= _credentials(kafka)
    except ValueError as error:
        raise TransientError(str(error)) from error
    return options


async def credentials_changed(kafka: KafkaSettings) -> None:
    """Returns when a file with a password, a certificate or a key has other bytes than at the call."""
    begun = await asyncio.to_thread(_contents, kafka)
    while True:
        await asyncio.sleep(LOOK_S)
        if await asyncio.to_thread(_contents, kafka) not in (begun, None):
            return


def _contents(kafka: KafkaSettings) -> list[bytes] | None:
    found = []
    for path in (
        kafka.kafka_password_file,
        kafka.kafka_ssl_ca_file,
        kafka.kafka_ssl_certificate_file,
        kafka.kafka_ssl_key_file,
    ):
        try:
            found.append(b"" if path is None else path.read_bytes())
        except OSError:  # about to be replaced
            return None
    return found


def _credentials(kafka: KafkaSettings) -> dict[str, Any]:
    mechanism = {"sasl_mechanism": kafka.kafka_sasl_mechanism}
    if kafka.kafka_sasl_mechanism == "OAUTHBEARER":
        return mechanism | {"sasl_oauth_token_provider": TokenCommand(kafka.kafka_token_command)}
    path = kafka.kafka_password_file
    assert path is not None, "the settings were checked"
    try:
        password = password_in(read_private(path))
    except ValueError as error:
        raise ValueError(f"TRACKSIDE_KAFKA_PASSWORD_FILE={path}: {error}") from error
    return mechanism | {"sasl_plain_username": kafka.kafka_user, "sasl_plain_password": password}
