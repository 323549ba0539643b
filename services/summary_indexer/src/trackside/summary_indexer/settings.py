"""Settings of the summary-indexer, read from TRACKSIDE_SUMMARY_INDEXER_ variables."""

from pydantic import Field, field_validator
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
        description="Time without a record while the log has more and nothing waits to be written, s, after "
        "which the process exits to be restarted.",
    )
    cache_jobs: int = Field(
        15, ge=1, le=10_000, description="How many jobs have curves in memory; those read last stay."
    )
    cache_bytes: int = Field(
        256 * 1024 * 1024,
        ge=1_000_000,
        le=64 * 1024**3,
        description="Approximate memory of all curves together, bytes.",
    )
    cache_loads: int = Field(
        15,
        ge=1,
        le=50,
        description="How many jobs are loaded into memory at once, each by a connection to Postgres.",
    )
    reads: int = Field(
        8,
        ge=1,
        le=50,
        description="How many requests read Postgres at once, each by a connection; others wait.",
    )
    read_limit_s: float = Field(
        15.0, gt=0, le=60, description="How long a query of a request may take, s, before it is cancelled."
    )

    @field_validator("*", mode="before")
    @classmethod
    def _no_flags(cls, value: object) -> object:
        if isinstance(value, bool):
            raise ValueError("expected a number")  # Python takes True for 1
        return value
