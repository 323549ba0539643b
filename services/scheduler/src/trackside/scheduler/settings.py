"""Settings of the scheduler, read from TRACKSIDE_SCHEDULER_ variables."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class SchedulerSettings(BaseSettings):
    """What an operator may choose about the scheduler."""

    model_config = SettingsConfigDict(env_prefix="TRACKSIDE_SCHEDULER_", frozen=True)

    lease_s: float = Field(
        10.0, ge=0.5, le=3_600, description="Silence after which a worker is lost, s, by the log's own clock."
    )
    heartbeat_s: float = Field(
        1.0, ge=0.05, le=60, description="Time between own heartbeats, s; leases are measured in these."
    )
    resend_s: float = Field(
        2.0, ge=0.1, le=60, description="Time after which an unanswered device command is sent again, s."
    )
    standby: bool = Field(False, description="A hot spare: decide only when the log was silent for 0.2 s.")
