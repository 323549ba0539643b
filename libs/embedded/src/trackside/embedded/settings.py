"""Settings of the stack of one machine, read by `trackside up`."""

from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from trackside.contracts.envelope.memory import bytes_of


class SupervisionSettings(BaseSettings):
    """How the services of one machine are kept running."""

    model_config = SettingsConfigDict(env_prefix="TRACKSIDE_", frozen=True)

    spares: bool = Field(
        True,
        description="Whether each service has a spare, a process that has imported its code and replaces it "
        "if it is killed. All spares together take about 0.3 GB of memory.",
    )


def _size(text: str) -> str:
    if bytes_of(text) < 1024 * 1024:
        raise ValueError("expected at least 1MiB: Prometheus removes what is over the size")
    return text


class DashboardSettings(BaseSettings):
    """Where Prometheus and Grafana are, and how much Prometheus keeps."""

    model_config = SettingsConfigDict(env_prefix="TRACKSIDE_", frozen=True)

    prometheus_home: str = Field(
        "", description="Folder of an unpacked Prometheus, with the program in it; empty: the one on PATH."
    )
    grafana_home: str = Field(
        "",
        description="Folder of an unpacked Grafana, with `bin` and `conf`; empty: the one on PATH. It is "
        "Grafana 9.4 or newer.",
    )
    prometheus_retention_days: int = Field(
        30, ge=1, le=3_650, description="How long Prometheus keeps metrics, days."
    )
    prometheus_retention_size: Annotated[str, AfterValidator(_size)] = Field(
        "2GiB", description="How much disk the metrics may take; the oldest are removed first."
    )
