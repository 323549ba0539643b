"""Settings that every service shares, read from TRACKSIDE_ variables."""

import sys
from typing import TypeVar

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from trackside.contracts.redaction import redact
from trackside.contracts.topics import Topics


class StackSettings(BaseSettings):
    """Where the log and the read models are."""

    model_config = SettingsConfigDict(env_prefix="TRACKSIDE_", frozen=True)

    kafka_bootstrap: str = Field(
        "127.0.0.1:9092", min_length=1, description="Kafka's host:port, comma separated."
    )
    postgres_dsn: str = Field(
        "postgresql://127.0.0.1:5432/trackside", min_length=1, description="Address of the read models."
    )
    topic_prefix: str = Field("", description="Put before every topic name, to share a cluster.")
    health_port: int = Field(
        0, ge=0, le=65_535, description="Port of /health, /ready and /metrics; 0 picks one."
    )
    health_host: str = Field(
        "127.0.0.1",
        min_length=1,
        description="Address that /health, /ready and /metrics are served on; 0.0.0.0 in a container.",
    )
    instance: str = Field("1", min_length=1, description="Name of this instance in the events it writes.")

    @property
    def topics(self) -> Topics:
        """The names of all topics."""
        return Topics(prefix=self.topic_prefix)


Settings = TypeVar("Settings", bound=BaseSettings)


def read_settings(kind: type[Settings]) -> Settings:
    """Reads settings from the environment; if one is invalid, names its variable and exits with 2."""
    try:
        return kind()
    except ValidationError as error:
        prefix = str(kind.model_config.get("env_prefix", ""))
        for detail in error.errors(include_url=False):
            variable = prefix + "_".join(str(part) for part in detail["loc"])
            sys.stderr.write(
                f"{variable.upper()}: {detail['msg']}, got {redact(repr(detail.get('input')))}\n"
            )
        raise SystemExit(2) from error
