"""Settings of the scheduler, read from TRACKSIDE_SCHEDULER_ variables."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from trackside.contracts.envelope.ids import IDENTIFIER_RULE, is_identifier
from trackside.contracts.envelope.memory import bytes_of
from trackside.scheduler.hosts.occupancy import AdmissionLimits
from trackside.scheduler.placing.placement import ORDERS, PlacementRules
from trackside.scheduler.planning.cluster_state import SchedulingPolicy

_LIMIT = re.compile(r"\s*(.*?)\s*=\s*(\d{1,6})\s*")


def _device_order(text: str) -> str:
    if text.removeprefix("-") not in ORDERS:
        names = ", ".join(ORDERS)
        raise ValueError(f"{text!r} is not a device order: expected {names}, or one of them after a minus")
    return text


def _memory_size(text: str) -> str:
    bytes_of(text)
    return text


def parse_queue_limits(text: str) -> dict[str, int]:
    """Parses `gpu=10,night=2`; raises ValueError that names what is expected."""
    limits = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        found = _LIMIT.fullmatch(part)
        if found is None:
            raise ValueError(f"{part!r} is not a queue limit: expected name=number, such as gpu=10,night=2")
        if not is_identifier(found[1]):
            raise ValueError(f"{found[1]!r} is not the name of a queue: expected {IDENTIFIER_RULE}")
        limits[found[1]] = int(found[2])
    return limits


def _queue_limits(text: str) -> str:
    parse_queue_limits(text)
    return text


MemorySize = Annotated[str, AfterValidator(_memory_size)]


class SchedulerSettings(BaseSettings):
    """The settings of the scheduler."""

    model_config = SettingsConfigDict(env_prefix="TRACKSIDE_SCHEDULER_", frozen=True)

    lease_s: float = Field(
        10.0, ge=0.5, le=3_600, description="Silence after which a worker is lost, s, by the log's clock."
    )
    heartbeat_s: float = Field(
        1.0, ge=0.05, le=60, description="Time between own heartbeats, s; leases are measured in these."
    )
    resend_s: float = Field(
        2.0, ge=0.1, le=60, description="Time after which an unanswered device command is sent again, s."
    )
    standby: bool = Field(False, description="Hot standby: decide only when the log was silent for 0.2 s.")
    look_ahead: int = Field(
        8,
        ge=0,
        le=8,
        description="How many tasks may be placed on a device after those that run there: "
        "more than one only if they take less than 0.2 s together.",
    )
    ageing_s: float = Field(
        600.0, gt=0, le=86_400, description="Waiting time that raises the priority of a task by one, s."
    )
    hold_after_s: float = Field(
        60.0,
        ge=0,
        le=86_400,
        description="How long a task may be overtaken before a place is reserved for it, s.",
    )
    queue_limits: Annotated[str, AfterValidator(_queue_limits)] = Field(
        "", description="Most tasks placed at once, by queue: gpu=10,night=2. Other queues have no limit."
    )
    device_order: Annotated[str, AfterValidator(_device_order)] = Field(
        "FIRST-FIT",
        description="Device tried first: FIRST-FIT, REMAIN-MEM (most free), TOTAL-MEM (largest), "
        "UTILISATION (least busy); with a minus before it, last.",
    )
    default_memory: MemorySize = Field(
        "2GB", description="Host memory of a task without any estimate; at most its CPU slot's share."
    )
    default_cuda_memory: MemorySize = Field("2GB", description="GPU memory of a task without any estimate.")
    host_free_share: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Share of a host's memory to leave free when a task is added to others there.",
    )
    host_free_memory: MemorySize = Field("0", description="Memory of a host to leave free, likewise.")
    device_free_share: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Share of a GPU's memory to leave free when a task is added to others there.",
    )
    device_free_memory: MemorySize = Field("0", description="Memory of a GPU to leave free, likewise.")
    max_cpu_percent: float = Field(
        0.0, ge=0, le=100, description="CPU use of a host, %, from which it gets no second task; 0: no limit."
    )
    max_loading_tasks: int = Field(
        0, ge=0, le=10_000, description="Most tasks of a worker that have not begun to train; 0: no limit."
    )

    @property
    def policy(self) -> SchedulingPolicy:
        """The settings in bytes and ms, as the decisions use them."""
        admission = AdmissionLimits(
            host_free_share=self.host_free_share,
            host_free_bytes=bytes_of(self.host_free_memory),
            device_free_share=self.device_free_share,
            device_free_bytes=bytes_of(self.device_free_memory),
            max_cpu_percent=self.max_cpu_percent,
            max_loading_tasks=self.max_loading_tasks,
        )
        return SchedulingPolicy(
            placement_rules=PlacementRules(admission, self.device_order),
            ageing_ms=max(1, int(self.ageing_s * 1000)),
            hold_after_ms=int(self.hold_after_s * 1000),
            look_ahead=self.look_ahead,
            queue_limits=parse_queue_limits(self.queue_limits),
            lease_s=self.lease_s,
            default_bytes=(bytes_of(self.default_memory), bytes_of(self.default_cuda_memory)),
        )
