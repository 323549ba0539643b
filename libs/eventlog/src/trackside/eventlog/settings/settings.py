"""Settings that every service shares, read from TRACKSIDE_ variables."""

import os
import sys
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings

from trackside.contracts.envelope.memory import bytes_of
from trackside.contracts.envelope.topics import PREFIX_RULE, Topics, is_topic_prefix
from trackside.eventlog.keys.decision_signer import DecisionSigner, read_signing_key
from trackside.eventlog.settings.kafka_settings import KafkaSettings
from trackside.eventlog.settings.password_file import dsn_with_password, read_password
from trackside.eventlog.settings.settings_problems import problems_of
from trackside.eventlog.settings.variables import warn_of_unknown_variables
from trackside.telemetry.disk_limits import DiskLimits


def _memory_size(text: str) -> str:
    bytes_of(text)
    return text


def _topic_prefix(text: str) -> str:
    if not is_topic_prefix(text):
        raise ValueError(f"not the beginning of a topic's name: expected {PREFIX_RULE}")
    return text


class StackSettings(KafkaSettings):
    """Where the log and the read models are."""

    postgres_password_file: Path | None = Field(
        None,
        description="File with the password of the read models in its first line, for an address that has "
        "a user and no password; read once, at the start.",
    )
    postgres_dsn: str = Field(
        "postgresql://127.0.0.1:5432/trackside",
        min_length=1,
        validate_default=True,
        description="Address of the read models; a worker needs none.",
    )
    topic_prefix: Annotated[str, AfterValidator(_topic_prefix)] = Field(
        "", description="Put before every topic name, to share a cluster."
    )
    health_port: int = Field(
        0, ge=0, le=65_535, description="Port of /health, /ready and /metrics; 0 picks one."
    )
    health_host: str = Field(
        "127.0.0.1",
        min_length=1,
        description="Address that /health, /ready and /metrics are served on; 0.0.0.0 in a container.",
    )
    metrics_linger_s: float = Field(
        0.0,
        ge=0,
        le=300,
        description="How long a service that was asked to stop serves /metrics at most, s, until it was "
        "scraped once more: more than the interval of the scrapes. 0: it does not wait, and what it counted "
        "since the last scrape is lost.",
    )
    signing_key_file: Path | None = Field(
        None,
        description="File with the private key that the service signs its events with, which only its user "
        "may read; read once, at the start. `trackside setup keys` makes it.",
    )
    instance: str = Field("1", min_length=1, description="Name of this instance in the events it writes.")
    disk_low_percent: float = Field(
        95.0,
        gt=0,
        le=100,
        description="Use of a disk, %, at which no new task is started; running ones continue.",
    )
    disk_low_free: Annotated[str, AfterValidator(_memory_size)] = Field(
        "500MiB", description="Free space of a disk below which no new task is started, likewise."
    )
    disk_folders: str = Field(
        "",
        description="Folders of the log and the read models, separated by colons: while a disk of one is "
        "low, the scheduler places no task. Workers watch the disk of their own data.",
    )
    state_folder: Path | None = Field(
        None,
        description="Folder for what a service keeps over a restart: for which decision it ended itself.",
    )
    decision_limit_s: float = Field(
        25.0,
        gt=0,
        description="Processor time, s, that the dispatcher may use for one decision before it ends itself; "
        "a decision that it ended for twice is not made again. Only with a state folder.",
    )
    past_folder: Path | None = Field(
        None,
        description="Folder of the snapshots of past states, from which `trackside replay` starts; without a "
        "folder they are in the database of the read models, in the schema trackside_past.",
    )

    @field_validator("postgres_password_file")
    @classmethod
    def _readable(cls, path: Path | None) -> Path | None:
        if path is not None:
            read_password(path)
        return path

    @field_validator("signing_key_file")
    @classmethod
    def _signs(cls, path: Path | None) -> Path | None:
        if path is not None:
            read_signing_key(path)
        return path

    @field_validator("postgres_dsn")
    @classmethod
    def _with_password(cls, dsn: str, validated: ValidationInfo) -> str:
        path = validated.data.get("postgres_password_file")
        return dsn if path is None else dsn_with_password(dsn, read_password(path))

    @property
    def disk_limits(self) -> DiskLimits:
        """When a disk counts as low."""
        return DiskLimits(self.disk_low_percent, bytes_of(self.disk_low_free))

    @property
    def watched_folders(self) -> list[Path]:
        """The folders in `disk_folders`."""
        return [Path(each) for each in self.disk_folders.split(os.pathsep) if each]

    @property
    def signer(self) -> DecisionSigner | None:
        """What signs the events of this service, if it has a key."""
        return None if self.signing_key_file is None else read_signing_key(self.signing_key_file)

    @property
    def topics(self) -> Topics:
        """The names of all topics."""
        return Topics(prefix=self.topic_prefix)


Settings = TypeVar("Settings", bound=BaseSettings)


def read_settings(kind: type[Settings]) -> Settings:
    """Reads settings from the environment; if one is invalid, names its variable and exits with 2.

    Variables of our prefix that are no settings are named first.
    """
    warn_of_unknown_variables()
    try:
        settings = kind()
    except ValidationError as error:
        for line in problems_of(error, str(kind.model_config.get("env_prefix", ""))):
            sys.stderr.write(f"{line}\n")
        raise SystemExit(2) from error
    if isinstance(settings, KafkaSettings):
        for sentence in settings.warnings:
            sys.stderr.write(f"trackside: {sentence}\n")
    return settings
