"""The files by which clients reach a broker that `trackside up --secure` started: its CA, and passwords."""

from pathlib import Path

from pydantic import ValidationError

from trackside.eventlog.settings.kafka_settings import PREFIX, KafkaSettings
from trackside.eventlog.settings.settings_problems import InvalidSettingsError, problems_of

NAME = "secure"
"""The folder below `.trackside`."""
CA = "ca.pem"
KEYS = "keys"
"""The folder with the keys that events are signed with, below that."""


def password_file(folder: Path, principal: str) -> Path:
    """Returns the file with the password of a principal."""
    return folder / f"{principal}.password"


def variables_of(folder: Path, principal: str) -> dict[str, str]:
    """Returns the environment in which a process connects as a principal; secrets are in files only."""
    return {
        "TRACKSIDE_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "TRACKSIDE_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
        "TRACKSIDE_KAFKA_SSL_CA_FILE": str(folder / CA),
        "TRACKSIDE_KAFKA_USER": principal,
        "TRACKSIDE_KAFKA_PASSWORD_FILE": str(password_file(folder, principal)),
    }


def settings_of(folder: Path, bootstrap: str, principal: str) -> KafkaSettings:
    """Returns how to connect as a principal; raises InvalidSettingsError if its files can't be used."""
    try:
        return KafkaSettings(
            kafka_bootstrap=bootstrap,
            kafka_security_protocol="SASL_SSL",
            kafka_sasl_mechanism="SCRAM-SHA-512",
            kafka_ssl_ca_file=folder / CA,
            kafka_user=principal,
            kafka_password_file=password_file(folder, principal),
        )
    except ValidationError as error:
        raise InvalidSettingsError("\n".join(problems_of(error, PREFIX))) from error
