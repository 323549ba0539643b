"""Settings of the scheduler, read from TRACKSIDE_SCHEDULER_ variables."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from trackside.contracts.memory import bytes_of
from trackside.scheduler.cluster_state import Policy
from trackside.scheduler.occupancy import Gates
from trackside.scheduler.placement import ORDERS, Rules

_LIMIT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9_.-]{0,127})\s*=\s*(\d{1,6})\s*")


def _order(text: str) -> str:
    if text.removeprefix("-") not in ORDERS:
        names = ", ".join(ORDERS)
        raise ValueError(f"{text!r} is no order of devices: expected {names}, or one of them after a minus")
    return text


def _amount(text: str) -> str:
    bytes_of(text)
    return text


def limits_of(text: str) -> dict[str, int]:
    """Reads `gpu=10,night=2`; raises ValueError, which says what is expected."""
    limits = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        found = _LIMIT.fullmatch(part)
        if found is None:
            raise ValueError(f"{part!r} is no limit of a queue: expected name=number, such as gpu=10,night=2")
        limits[found[1]] = int(found[2])
    return limits


def _limits(text: str) -> str:
    limits_of(text)
    return text


Amount = Annotated[str, AfterValidator(_amount)]


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
    look_ahead: int = Field(
        1, ge=0, le=1, description="How many tasks may be placed behind the running ones of a device."
    )
    ageing_s: float = Field(
        600.0, gt=0, le=86_400, description="Waiting that counts as one more level of priority, s."
    )
    hold_after_s: float = Field(
        60.0, ge=0, le=86_400, description="How long others may go before a task that doesn't fit yet, s."
    )
    queue_limits: Annotated[str, AfterValidator(_limits)] = Field(
        "", description="Most tasks placed at once, by queue: gpu=10,night=2. Others have no limit."
    )
    device_order: Annotated[str, AfterValidator(_order)] = Field(
        "FIRST-FIT",
        description="Device tried first: FIRST-FIT, REMAIN-MEM (most free), TOTAL-MEM (largest), "
        "UTILISATION (least busy); with a minus before it, last.",
    )
    default_memory: Amount = Field(
        "2GB", description="Host memory of a task of which nothing is known; at most its CPU slot's share."
    )
    default_cuda_memory: Amount = Field(
        "2GB", description="Memory on a GPU of a task of which nothing is known."
    )
    host_free_share: float = Field(
        0.0, ge=0, lt=1, description="Share of a host's memory that tasks leave free, once one is there."
    )
    host_free_memory: Amount = Field("0", description="Memory of a host that tasks leave free, likewise.")
    device_free_share: float = Field(
        0.0, ge=0, lt=1, description="Share of a GPU's memory that tasks leave free, once one is there."
    )
    device_free_memory: Amount = Field("0", description="Memory of a GPU that tasks leave free, likewise.")
    max_cpu_percent: float = Field(
        0.0, ge=0, le=100, description="CPU use of a host, %, above which it gets no second task; 0: any."
    )
    max_loading_tasks: int = Field(
        0, ge=0, le=10_000, description="Tasks of a worker that don't train yet, at most; 0: any number."
    )

    @property
    def policy(self) -> Policy:
        """The same as the pure parts take it: bytes and ms."""
        gates = Gates(
            host_share=self.host_free_share,
            host_bytes=bytes_of(self.host_free_memory),
            device_share=self.device_free_share,
            device_bytes=bytes_of(self.device_free_memory),
            max_cpu_percent=self.max_cpu_percent,
            max_loading=self.max_loading_tasks,
        )
        return Policy(
            rules=Rules(gates, self.device_order),
            ageing_ms=max(1, int(self.ageing_s * 1000)),
            hold_after_ms=int(self.hold_after_s * 1000),
            look_ahead=self.look_ahead,
            queue_limits=limits_of(self.queue_limits),
            lease_s=self.lease_s,
            defaults=(bytes_of(self.default_memory), bytes_of(self.default_cuda_memory)),
        )
