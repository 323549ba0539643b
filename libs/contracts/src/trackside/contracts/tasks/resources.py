"""What a task asks for: devices, memory, time, more tries, and its place in the queue."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_serializer, model_validator
from pydantic_core import PydanticCustomError

from trackside.contracts.envelope.ids import Identifier
from trackside.contracts.envelope.memory import Memory
from trackside.contracts.envelope.message import is_absent

MAX_TIMEOUT_S = 30 * 24 * 3_600
Timeout = Annotated[float, Field(gt=0, le=MAX_TIMEOUT_S, allow_inf_nan=False)]
Priority = Annotated[int, Field(ge=0, le=9)]
DEFAULT_PRIORITY = 5
DEFAULT_GRACE_S = 30.0
MemoryLimit = Literal["max_memory", "estimate", "cgroup", "host"]
"""Which limit of host memory a killed task hit: that of its type in the worker's catalogue, its own estimate
if the type has that enforced, that of the cgroup that the worker itself is in (such as a container's), or the
memory of the host.
"""


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Resources(_Spec):
    """The devices and the memory that a task needs; memory is per device, and for the host in all.

    `device` is a fixed one: `gpu-1`, `cuda:1` for the same, or `w1/gpu-1` with its worker's id. With 0
    `devices` it takes memory of the host, and none of its devices.
    """

    kind: Literal["any", "cpu", "gpu"] = "any"
    devices: int = Field(default=1, ge=0, le=64)
    device: str = Field(default="", max_length=260)
    whole_device: bool = False
    estimate_memory: Memory | None = None
    estimate_cuda_memory: Memory | None = None

    @model_validator(mode="after")
    def _possible(self) -> "Resources":
        reasons = []
        if self.device and self.devices != 1:
            reasons.append(f"a fixed device is one device, not {self.devices}")
        if self.devices == 0 and (self.kind == "gpu" or self.whole_device or self.estimate_cuda_memory):
            reasons.append("without devices there is no GPU: leave kind, whole_device and CUDA memory out")
        if self.kind == "cpu" and self.estimate_cuda_memory is not None:
            reasons.append("a CPU slot has no CUDA memory: leave kind or the estimate out")
        if reasons:
            raise PydanticCustomError("bad_resources", "{reasons}", {"reasons": "; ".join(reasons)})
        return self


class Retry(_Spec):
    """How often an attempt is tried again, and after how long: backoff_s, times `factor` each time.

    The wait is drawn from 1 - jitter to 1 + jitter of that, with a seed that is the attempt's own.
    """

    times: int = Field(default=0, ge=0, le=100)
    backoff_s: float = Field(default=0.0, ge=0, le=86_400, allow_inf_nan=False)
    factor: float = Field(default=2.0, ge=1, le=100, allow_inf_nan=False)
    max_backoff_s: float = Field(default=3_600.0, ge=0, le=86_400, allow_inf_nan=False)
    jitter: float = Field(default=0.1, ge=0, le=1, allow_inf_nan=False)

    @model_serializer(mode="wrap")
    def _short(self, whole: Any) -> int | dict[str, Any]:
        """Writes the number alone where there is nothing else to say."""
        return self.times if self._wait() == _DEFAULT_WAIT else dict(whole(self))

    def _wait(self) -> tuple[float, ...]:
        return (self.backoff_s, self.factor, self.max_backoff_s, self.jitter)


_DEFAULT_WAIT = Retry()._wait()


def _from_number(given: object) -> object:
    return {"times": given} if isinstance(given, int) and not isinstance(given, bool) else given


RetryRule = Annotated[Retry, BeforeValidator(_from_number, json_schema_input_type=int | Retry)]


class RetryPolicy(_Spec):
    """How many more tries a task gets, by the way an attempt ended: a number, or a rule with a backoff.

    A task that was killed at the memory limit of its type (`max_memory` in a worker's catalogue) is tried
    again only on a worker that allows more, unless `at_memory_limit` is set.
    """

    lost: RetryRule = Retry(times=3)
    failed: RetryRule = Retry()
    oom_host: RetryRule = Retry(times=2)
    oom_device: RetryRule = Retry(times=2)
    timed_out_run: RetryRule = Retry()
    at_memory_limit: bool = False


class KeepCheckpoints(_Spec):
    """Which checkpoints of a task are kept: the newest, and those with the best value reported before."""

    newest: int = Field(default=2, ge=1, le=100)
    best: int = Field(default=1, ge=0, le=100)
    direction: Literal["maximize", "minimize"] = "maximize"


class ServicePolicy(_Spec):
    """A task that runs until it is stopped, and is tried again without limit.

    One that is ready, and does not ask for instructions for `unresponsive_s`, is ended and tried again.
    """

    unresponsive_s: Timeout | None = None


def _from_flag(given: object) -> object:
    return ({} if given else None) if isinstance(given, bool) else given


ServiceRule = Annotated[
    ServicePolicy | None, BeforeValidator(_from_flag, json_schema_input_type=bool | ServicePolicy | None)
]
"""`true` stands for a service with defaults, `false` for none."""

_ALL = KeepCheckpoints()


class Needs(_Spec):
    """Everything that a task requests from the scheduler. `preempt`: it may preempt tasks of lower priority.

    `exclusive`: two copies must never run, not even for the seconds in which a worker that was declared
    lost may still run; its worker ends it when the log stops responding.

    With `resume` a later attempt or placement begins with the newest checkpoint, and a task that is preempted
    has `checkpoint_grace_s` to save one. A `service` runs until it is stopped. `preemptible`: it makes room
    for tasks of higher priority; by default all but services do. `credentials` are the names of those that
    its worker's host must have, and those of its inputs.
    """

    queue: Identifier = "default"
    priority: Priority = DEFAULT_PRIORITY
    preempt: bool = False
    exclusive: bool = False
    resources: Resources = Resources()
    retry: RetryPolicy = RetryPolicy()
    queue_timeout_s: Timeout | None = None
    run_timeout_s: Timeout | None = None
    resume: bool = Field(default=True, exclude_if=bool)
    keep_checkpoints: KeepCheckpoints = Field(default=_ALL, exclude_if=_ALL.__eq__)
    checkpoint_grace_s: float = Field(
        default=DEFAULT_GRACE_S, ge=0, le=3_600, allow_inf_nan=False, exclude_if=DEFAULT_GRACE_S.__eq__
    )
    service: ServiceRule = Field(default=None, exclude_if=is_absent)
    preemptible: bool | None = Field(default=None, exclude_if=is_absent)
    credentials: list[Identifier] = Field(default=[], max_length=20, exclude_if=is_absent)

    @property
    def gives_way(self) -> bool:
        """Returns whether it makes room for tasks of higher priority."""
        return self.service is None if self.preemptible is None else self.preemptible
