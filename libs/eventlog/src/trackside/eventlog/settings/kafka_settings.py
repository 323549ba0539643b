"""Where Kafka is, and how clients connect to it: encrypted or not, and as whom."""

import ssl
from contextlib import suppress
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from trackside.artifacts.blobs.private_files import check_private, read_private
from trackside.eventlog.settings.password_file import password_in
from trackside.eventlog.settings.settings_problems import InvalidSettingsError, problems_of

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
PREFIX = "TRACKSIDE_"


class EndsAtOnce(ssl.SSLObject):
    """The TLS of a connection that is closed without waiting for the broker's answer.

    A broker reads that a connection ends when the fetch that it holds is over, up to 4 s later.
    """

    def unwrap(self) -> None:
        """Sends that the connection ends."""
        with suppress(ssl.SSLWantReadError):
            super().unwrap()


class KafkaSettings(BaseSettings):
    """The address of Kafka, how connections to it are encrypted, and as which user they are opened."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True)

    kafka_bootstrap: str = Field(
        "127.0.0.1:9092", min_length=1, description="Kafka's host:port, comma separated."
    )
    kafka_security_protocol: SecurityProtocol = Field(
        "PLAINTEXT",
        description="How connections to Kafka are opened, in Kafka's words: with TLS (SSL, SASL_SSL), with a "
        "user (SASL_PLAINTEXT, SASL_SSL), with neither (PLAINTEXT).",
    )
    kafka_ssl_ca_file: Path | None = Field(
        None,
        description="File with the certificates of the CAs that may sign the brokers' certificates, in PEM; "
        "without it, those of the system.",
    )
    kafka_ssl_certificate_file: Path | None = Field(
        None,
        description="File with the certificate of this client, in PEM, where the brokers require one.",
    )
    kafka_ssl_key_file: Path | None = Field(
        None,
        description="File with the key of that certificate, in PEM, without a passphrase and readable by its "
        "owner only; without it, the key is in the file of the certificate.",
    )
    kafka_sasl_mechanism: SaslMechanism = Field(
        "SCRAM-SHA-512", description="How the user proves who it is, for SASL_PLAINTEXT and SASL_SSL."
    )
    kafka_user: str = Field("", description="The user of this process, for PLAIN and SCRAM.")
    kafka_password_file: Path | None = Field(
        None,
        description="File with the password of that user in its first line, readable by its owner only "
        "(mode 0600); read again for each new client, so a changed password needs no restart.",
    )
    kafka_token_command: str = Field(
        "",
        description="Command that prints a token in its first line, for OAUTHBEARER; it is run without a "
        "shell, for each new connection, for 10 s at most.",
    )

    @field_validator("kafka_ssl_key_file")
    @classmethod
    def _for_its_owner(cls, path: Path | None) -> Path | None:
        if path is not None:
            check_private(path)
        return path

    @field_validator("kafka_password_file")
    @classmethod
    def _with_a_password(cls, path: Path | None) -> Path | None:
        if path is not None:
            password_in(read_private(path))
        return path

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.kafka_ssl_key_file and not self.kafka_ssl_certificate_file:
            raise ValueError(
                f"{PREFIX}KAFKA_SSL_CERTIFICATE_FILE is not set: expected the certificate of the key in "
                f"{PREFIX}KAFKA_SSL_KEY_FILE"
            )
        if self.kafka_ssl_certificate_file and not self.kafka_ssl_key_file:  # then it has the key too
            check_private(self.kafka_ssl_certificate_file)
        if self.uses_tls:
            self.tls()
        if self.uses_sasl:
            for variable, value in self._needed():
                if not value:
                    raise ValueError(
                        f"{PREFIX}{variable} is not set: expected it for {self.kafka_security_protocol} with "
                        f"{self.kafka_sasl_mechanism}"
                    )
        return self

    def _needed(self) -> list[tuple[str, object]]:
        if self.kafka_sasl_mechanism == "OAUTHBEARER":
            return [("KAFKA_TOKEN_COMMAND", self.kafka_token_command.strip())]
        return [("KAFKA_USER", self.kafka_user), ("KAFKA_PASSWORD_FILE", self.kafka_password_file)]

    def __str__(self) -> str:
        """Returns the address alone, as errors name it."""
        return self.kafka_bootstrap

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.kafka_security_protocol in ("SSL", "SASL_SSL")

    @property
    def uses_sasl(self) -> bool:
        """Whether connections are those of a user."""
        return self.kafka_security_protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    def tls(self) -> ssl.SSLContext:
        """Returns the certificates to trust and to show, read from their files; raises ValueError."""
        ca, certificate, key = (
            self.kafka_ssl_ca_file,
            self.kafka_ssl_certificate_file,
            self.kafka_ssl_key_file,
        )
        try:
            context = ssl.create_default_context(cafile=ca)
        except OSError as error:
            reason = _pem_problem(error, "no certificate")
            raise ValueError(f"{PREFIX}KAFKA_SSL_CA_FILE={ca}: {reason}") from error
        context.sslobject_class = EndsAtOnce
        if certificate is not None:
            try:
                context.load_cert_chain(certificate, key, password=_no_passphrase)
            except OSError as error:
                where = f"{PREFIX}KAFKA_SSL_CERTIFICATE_FILE={certificate}"
                if key is not None:
                    where += f" and {PREFIX}KAFKA_SSL_KEY_FILE={key}"
                reason = _pem_problem(error, "no certificate with its key")
                raise ValueError(f"{where}: {reason}") from error
        return context

    @property
    def warnings(self) -> list[str]:
        """What works and is not what it may look like, a sentence each."""
        found = []
        if self.kafka_security_protocol == "SASL_PLAINTEXT" and self.kafka_sasl_mechanism == "PLAIN":
            found.append(
                f"{PREFIX}KAFKA_SECURITY_PROTOCOL=SASL_PLAINTEXT with the mechanism PLAIN sends the password "
                "to Kafka unencrypted: expected SASL_SSL"
            )
        unused = {
            "KAFKA_USER": self.kafka_user and not self.uses_sasl,
            "KAFKA_PASSWORD_FILE": self.kafka_password_file and not self.uses_sasl,
            "KAFKA_TOKEN_COMMAND": self.kafka_token_command and not self.uses_sasl,
            "KAFKA_SSL_CA_FILE": self.kafka_ssl_ca_file and not self.uses_tls,
            "KAFKA_SSL_CERTIFICATE_FILE": self.kafka_ssl_certificate_file and not self.uses_tls,
        }
        return found + [
            f"{PREFIX}{variable} has no effect with {PREFIX}KAFKA_SECURITY_PROTOCOL="
            f"{self.kafka_security_protocol}"
            for variable, is_unused in unused.items()
            if is_unused
        ]


def kafka_settings(kafka: KafkaSettings | str) -> KafkaSettings:
    """Returns the settings of the Kafka at an address, its security as the environment says.

    Raises InvalidSettingsError.
    """
    if isinstance(kafka, KafkaSettings):
        return kafka
    try:
        return KafkaSettings(kafka_bootstrap=kafka)
    except ValidationError as error:
        raise InvalidSettingsError("\n".join(problems_of(error, PREFIX))) from error


def _no_passphrase() -> str:
    raise OSError("the key has a passphrase: expected a key without one")


def _pem_problem(error: OSError, missing: str) -> str:
    reason = getattr(error, "reason", None)
    if reason == "KEY_VALUES_MISMATCH":
        return "the key is not that of the certificate"
    if isinstance(error, ssl.SSLError):
        return f"the file has {missing} in PEM ({reason or error})"
    return f"the file can't be read: {error.strerror or error}"
