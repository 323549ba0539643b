"""Settings of the dispatcher, read from TRACKSIDE_DISPATCHER_ variables."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class DispatcherSettings(BaseSettings):
    """What an operator may choose about the dispatcher."""

    model_config = SettingsConfigDict(env_prefix="TRACKSIDE_DISPATCHER_", frozen=True)

    tuner_time_limit_s: float = Field(
        30.0,
        gt=0,
        le=3_600,
        description="How long a tuner may take for one suggestion before it is killed, s.",
    )
    standby: bool = Field(
        False,
        description="A hot spare: decide only when the log was silent for 0.2 s.",
    )
