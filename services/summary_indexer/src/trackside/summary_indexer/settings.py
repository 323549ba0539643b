"""Settings of the summary-indexer, read from TRACKSIDE_SUMMARY_INDEXER_ variables."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class SummaryIndexerSettings(BaseSettings):
    """The settings of the summary-indexer."""

    model_config = SettingsConfigDict(env_prefix="TRACKSIDE_SUMMARY_INDEXER_", frozen=True)

    batch_points: int = Field(
        20_000,
        ge=1,
        le=1_000_000,
        description="Approximate number of points in one transaction: enough to spread the cost of a commit, "
        "few enough that a retry is short.",
    )
    buffer_points: int = Field(
        100_000,
        ge=1,
        le=10_000_000,
        description="Approximate number of points read ahead of Postgres, to bound memory.",
    )
    session_timeout_s: float = Field(
        6.0,
        ge=1,
        le=60,
        description="Silence after which Kafka reassigns the partitions of an instance, s; not less "
        "than the broker's group.min.session.timeout.ms.",
    )
    stuck_s: float = Field(
        10.0,
        ge=1,
        le=600,
        description="Time without progress while the log has more, s, after which the process exits "
        "to be restarted.",
    )
