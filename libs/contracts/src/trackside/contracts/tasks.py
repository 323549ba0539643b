"""Tasks: what runs on a device, its attempts, and how an attempt ends."""

from enum import IntEnum, StrEnum
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from trackside.contracts.message import Command, Event, Json

WORKER = frozenset({"worker"})
SCHEDULER = frozenset({"scheduler"})
DISPATCHER = frozenset({"dispatcher"})
MAX_RESULT_BYTES = 65_536


class TaskStatus(IntEnum):
    """The phases of an attempt, with the numbers that users of fedflow know."""

    UNKNOWN = 0
    INIT = 1
    AVAILABLE = 2
    LOADING = 3
    WAITING = 4
    TRAINING = 5
    FINISHED = 6
    EXITED = 7
    EXCEPTION = 8
    INTERRUPT = 9


class AttemptEnd(StrEnum):
    """How an attempt ended."""

    FINISHED = "finished"
    FAILED = "failed"
    LOST = "lost"
    CANCELLED = "cancelled"


class RetryPolicy(BaseModel):
    """How many more attempts a task gets after an attempt that was lost, or that failed."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    lost: int = Field(default=3, ge=0, le=100)
    failed: int = Field(default=0, ge=0, le=100)


class TaskError(BaseModel):
    """What an attempt died of: the stage, the exception's type and text, its traceback (at most 64 KiB)."""

    model_config = ConfigDict(frozen=True)
    stage: Literal["START", "LOAD", "TRAIN", "REPORT"]
    type: str
    message: str
    traceback: str = ""


class TaskSubmitted(Event):
    """A task waits for a device."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    task_id: str
    task_type: str
    parameters: Json
    trial: int | None = None
    queue: str = "default"
    retry: RetryPolicy = RetryPolicy()


class TaskStopRequested(Event):
    """A task shall end: it is cancelled at once if it waits, else its worker is told."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    task_id: str
    reason: Literal["user", "assessor", "search_failed"]
    seen: int | None = None


class TaskAssigned(Event):
    """A task has a device; `placement` counts the assignments of this attempt from 1."""

    written_by: ClassVar[frozenset[str]] = SCHEDULER
    task_id: str
    attempt: int
    placement: int
    worker_id: str
    incarnation: str
    device_id: str
    seen: int


class TaskAccepted(Event):
    """The worker has the task in its journal and starts it."""

    written_by: ClassVar[frozenset[str]] = WORKER
    task_id: str
    attempt: int
    placement: int
    incarnation: str


class TaskRefused(Event):
    """The worker won't run this placement; the scheduler places the task again."""

    written_by: ClassVar[frozenset[str]] = WORKER
    task_id: str
    attempt: int
    placement: int
    incarnation: str
    code: str
    message: str


class TaskStatusChanged(Event):
    """An attempt has entered a phase."""

    written_by: ClassVar[frozenset[str]] = WORKER
    task_id: str
    attempt: int
    placement: int
    incarnation: str
    status: TaskStatus


class MetricReported(Event):
    """A value that decides: what a tuner or an assessor sees. What isn't finite has no value but a name."""

    written_by: ClassVar[frozenset[str]] = WORKER
    task_id: str
    attempt: int
    placement: int
    kind: Literal["PERIODICAL", "FINAL"]
    step: int
    value: float | None
    non_finite: Literal["nan", "inf", "-inf"] | None = None


class AttemptEnded(Event):
    """An attempt is over: by its worker's word, or by the scheduler's if the worker is lost."""

    written_by: ClassVar[frozenset[str]] = WORKER | SCHEDULER
    task_id: str
    attempt: int
    placement: int
    incarnation: str
    end: AttemptEnd
    result: Json | None = None
    error: TaskError | None = None
    load_time_ms: int = -1
    train_time_ms: int = -1
    exit_code: int | None = None
    recovered: bool = False


class RunTask(Command):
    """Tells a device to run one placement of a task."""

    stream: str
    task_id: str
    attempt: int
    placement: int
    incarnation: str
    task_type: str
    parameters: Json


class StopTask(Command):
    """Tells a device to end one placement of a task."""

    stream: str
    task_id: str
    attempt: int
    placement: int
    incarnation: str
    reason: str
