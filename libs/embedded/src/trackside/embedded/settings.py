"""Settings of the stack of one machine, read by `trackside up`."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class SupervisionSettings(BaseSettings):
    """How the services of one machine are kept running."""

    model_config = SettingsConfigDict(env_prefix="TRACKSIDE_", frozen=True)

    spares: bool = Field(
        True,
        description="Whether each service has a spare, a process that has imported its code and replaces it "
        "if it is killed. All spares together take about 0.3 GB of memory.",
    )
