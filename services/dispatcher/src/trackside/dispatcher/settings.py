"""Settings of the dispatcher, read from TRACKSIDE_DISPATCHER_ variables."""

import re
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from trackside.contracts.envelope.memory import bytes_of

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


class DispatcherSettings(BaseSettings):
    """Settings of the dispatcher."""

    model_config = SettingsConfigDict(env_prefix="TRACKSIDE_DISPATCHER_", frozen=True)

    tuner_time_limit_s: float = Field(
        30.0,
        gt=0,
        le=3_600,
        description="How long a tuner or an assessor may take for one answer before it is killed, s.",
    )
    standby: bool = Field(
        False,
        description="A hot spare: decide only when the log was silent for 0.2 s.",
    )
    signatures: Literal["off", "accept", "require"] = Field(
        "off",
        description="`off`: signatures are not checked; `accept`: they must be valid; `require`: all must.",
    )
    keys_file: Path | None = Field(
        None,
        description="Public keys of publishers: JSON, needed unless signatures are `off`.",
    )
    max_commands_per_s: float = Field(
        0.0,
        ge=0,
        le=1_000_000,
        description="How many commands a second each publisher may publish on average over 10 s: those that "
        "open streams, and as many others. 0: no limit.",
    )
    max_open_streams: int = Field(
        0,
        ge=0,
        description="How many streams each publisher may have open: begun by its commands, and not over. "
        "0: no limit.",
    )
    limits_file: Path | None = Field(
        None,
        description="Limits of publishers that have their own, by `key:ID` or `source:URI`: JSON.",
    )
    receipt_topics: str = Field(
        "",
        description="Topics, comma-separated, to which a command may also have its answer sent.",
    )
    encrypt_streams: Literal["off", "all"] = Field(
        "off",
        description="`all`: every new stream is encrypted, so that it can be forgotten; `off`: those whose "
        "first command asks for it. They begin once Postgres, which has the keys, is reachable.",
    )
    past_limit: str = Field(
        "512MiB",
        description="Disk space for all snapshots of past states: old ones are merged, then dropped. 0: none "
        "are written.",
    )

    @field_validator("past_limit")
    @classmethod
    def _is_size(cls, text: str) -> str:
        """Refuses what is no size; 0 needs no unit."""
        if text != "0":
            bytes_of(text)
        return text

    @property
    def past_bytes(self) -> int:
        """The limit of all snapshots of past states."""
        return 0 if self.past_limit == "0" else bytes_of(self.past_limit)

    @field_validator("keys_file", "limits_file")
    @classmethod
    def _exists(cls, path: Path | None, field: ValidationInfo) -> Path | None:
        """Refuses a file that does not exist; its content is checked when it is read."""
        if path is not None and not path.is_file():
            what = "public keys" if field.field_name == "keys_file" else "limits"
            raise ValueError(f"expected a file of {what}, there is none")
        return path

    @field_validator("receipt_topics")
    @classmethod
    def _are_foreign_topics(cls, text: str) -> str:
        """Refuses invalid topic names, and Trackside's own topics with any prefix."""
        for name in topics_of(text):
            if not _TOPIC.fullmatch(name) or "trackside." in name or name in (".", ".."):
                raise ValueError(f"expected names of topics that are not Trackside's own, not {name!r}")
        return text


def topics_of(text: str) -> frozenset[str]:
    """Returns the names of a comma-separated list."""
    return frozenset(name.strip() for name in text.split(",") if name.strip())
