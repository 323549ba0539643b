"""Tasks: what runs on a device, its attempts, and how an attempt ends."""

from enum import IntEnum, StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from trackside.contracts.envelope.message import DISPATCHER, SCHEDULER, WORKER, Event, Json, is_absent
from trackside.contracts.envelope.parts import Part
from trackside.contracts.tasks.artifacts import ArtifactReference, CheckpointReference
from trackside.contracts.tasks.resources import MemoryLimit, Needs

MAX_RESULT_BYTES = 65_536
NonFinite = Literal["nan", "inf", "-inf"]
Figure = Annotated[float, Field(allow_inf_nan=False)] | NonFinite
"""A reported number: itself if it is finite, else its name."""


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

    @classmethod
    def of(cls, given: object) -> "TaskStatus":
        """Returns the phase that a number or a name stands for; UNKNOWN for anything else."""
        if isinstance(given, str):
            return cls.__members__.get(given, cls.UNKNOWN)
        if isinstance(given, int) and not isinstance(given, bool) and given in cls._value2member_map_:
            return cls(given)
        return cls.UNKNOWN


class AttemptEnd(StrEnum):
    """How an attempt ended."""

    FINISHED = "finished"
    FAILED = "failed"
    OOM_HOST = "oom_host"
    OOM_DEVICE = "oom_device"
    LOST = "lost"
    PREEMPTED = "preempted"
    TIMED_OUT_QUEUE = "timed_out_queue"
    TIMED_OUT_RUN = "timed_out_run"
    CANCELLED = "cancelled"
    REFUSED = "refused"


class TaskError(BaseModel):
    """What an attempt died of: the stage, the exception's type and text, its traceback (at most 64 KiB)."""

    model_config = ConfigDict(frozen=True)
    stage: Literal["START", "LOAD", "TRAIN", "REPORT", "SAVE"]
    type: str
    message: str
    traceback: str = ""


class TaskSubmitted(Event):
    """A task waits for a device. `part` is what of its aggregate it is for; none for a task of no aggregate.

    `estimated_by` names the source of its estimates: the task, or its group or batch if it gave none.
    `inputs` are artifacts that its worker fetches before it loads, by the names that the task knows them by.
    It begins with `checkpoint` of another task, if there is one, and is over when it has reported the step
    before `step_limit`.
    """

    wire_version: ClassVar[int] = 2
    written_by: ClassVar[frozenset[str]] = DISPATCHER
    task_id: str
    task_type: str
    parameters: Json
    part: Part | None = None
    needs: Needs = Needs()
    estimated_by: Literal["task", "group"] = "task"
    inputs: dict[str, ArtifactReference] = Field(default={}, exclude_if=is_absent)
    checkpoint: CheckpointReference | None = Field(default=None, exclude_if=is_absent)
    step_limit: int | None = Field(default=None, exclude_if=is_absent)


class TaskStopRequested(Event):
    """A task must end: a queued one is cancelled at once, for a running one its worker is asked to stop it.

    Void if before `due_ms`, where a time limit is the reason, and once another attempt than `attempt` is the
    newest one, where what that attempt has reported is the reason.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    task_id: str
    reason: Literal[
        "user", "assessor", "search_failed", "max_trial_duration", "step_limit", "run_failed", "run_timeout"
    ]
    seen: int | None = None
    due_ms: int | None = None
    attempt: int | None = Field(default=None, exclude_if=is_absent)


class TaskHeld(Event):
    """A task must not run now: it is not placed, and returns the devices it has. `hold` counts from 1."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    task_id: str
    hold: int


class TaskReleased(Event):
    """A task that was held may run again; its attempt is the same."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    task_id: str
    hold: int


class Reservation(BaseModel):
    """Memory that is kept for an attempt: on the host in all, and on each of its devices.

    `largest_limit_bytes` is the most memory of a host that any worker allows such a task, 0 for no limit.
    """

    model_config = ConfigDict(frozen=True)
    memory_bytes: int = 0
    cuda_memory_bytes: int = 0
    largest_limit_bytes: int = 0
    estimated_by: Literal["task", "group", "learned", "default", "raised"] = "default"


class TaskAssigned(Event):
    """A task has its devices; `placement` counts the assignments of this attempt from 1.

    `behind` says that another task still has the device: this one waits at the worker for its turn.
    """

    written_by: ClassVar[frozenset[str]] = SCHEDULER
    task_id: str
    attempt: int
    placement: int
    worker_id: str
    incarnation: str
    device_ids: list[str]
    reserved: Reservation = Reservation()
    behind: bool = False
    seen: int


class TaskUnschedulable(Event):
    """No worker that is there could ever run this task; it waits for one that can, or for its time limit.

    `number` counts what was said about this attempt from 1.
    """

    written_by: ClassVar[frozenset[str]] = SCHEDULER
    task_id: str
    attempt: int
    number: int
    message: str


class TaskPreemptionRequested(Event):
    """A running placement must make room for a task of higher priority; it will run again later."""

    written_by: ClassVar[frozenset[str]] = SCHEDULER
    task_id: str
    attempt: int
    placement: int
    by: str


class TaskRecallRequested(Event):
    """A placement that waits for a busy device is recalled, if it has not started."""

    written_by: ClassVar[frozenset[str]] = SCHEDULER
    task_id: str
    attempt: int
    placement: int
    reason: str


class TimeLimitReached(Event):
    """A task has waited, or an attempt has run, for as long as it may; void if written before `due_ms`."""

    written_by: ClassVar[frozenset[str]] = SCHEDULER
    task_id: str
    attempt: int
    limit: Literal["queue", "run"]
    due_ms: int


class TaskAccepted(Event):
    """The worker has the task in its journal and starts it."""

    written_by: ClassVar[frozenset[str]] = WORKER
    task_id: str
    attempt: int
    placement: int
    incarnation: str


class AttemptAdopted(Event):
    """A new incarnation of a worker has an attempt whose process outlived an earlier one.

    `earlier` are the incarnations that may have it until then: the one that it was assigned to, and each that
    has written such an event of it before. Any of these may have died before its event was in the log.
    The worker appends it before it joins.
    """

    written_by: ClassVar[frozenset[str]] = WORKER
    task_id: str
    attempt: int
    placement: int
    worker_id: str
    incarnation: str
    earlier: tuple[str, ...]


class TaskRefused(Event):
    """The worker won't run this placement; the scheduler places the task again."""

    written_by: ClassVar[frozenset[str]] = WORKER
    task_id: str
    attempt: int
    placement: int
    incarnation: str
    code: str
    message: str


class TaskReturned(Event):
    """The worker gives a placement back that it was asked for and had not begun."""

    written_by: ClassVar[frozenset[str]] = WORKER
    task_id: str
    attempt: int
    placement: int
    incarnation: str


class TaskInterrupted(Event):
    """An attempt ran out of memory while it trained; it keeps its process and its data, and trains again.

    `interrupt` counts these within the attempt from 1; `reserved` is what it gets next time.
    """

    written_by: ClassVar[frozenset[str]] = WORKER
    task_id: str
    attempt: int
    placement: int
    incarnation: str
    interrupt: int
    resource: Literal["host", "device"]
    reserved: Reservation
    error: TaskError


class TaskStatusChanged(Event):
    """An attempt has entered a phase, after so many `interrupts`."""

    written_by: ClassVar[frozenset[str]] = WORKER
    task_id: str
    attempt: int
    placement: int
    incarnation: str
    status: TaskStatus
    interrupts: int = 0


class ParametersRequested(Event):
    """A running task asks for the parameters of another trial; `request` counts from 1 in each placement."""

    written_by: ClassVar[frozenset[str]] = WORKER
    task_id: str
    attempt: int
    placement: int
    incarnation: str
    request: int


class ParametersWithheld(Event):
    """A task that asked gets no further trial: its search has none for it, for a `reason`."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    task_id: str
    attempt: int
    placement: int
    request: int
    reason: str


class TaskContinued(Event):
    """A task that asked continues with another part, such as the next trial, in the same process.

    It follows the event that gave its aggregate that part, in the same decision.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    task_id: str
    attempt: int
    placement: int
    request: int
    part: Part
    parameters: Json


class ParametersTaken(Event):
    """A task's process has received the answer to a request, and continues."""

    written_by: ClassVar[frozenset[str]] = WORKER
    task_id: str
    attempt: int
    placement: int
    incarnation: str
    request: int


class MetricReported(Event):
    """A value that decides: what a tuner or an assessor sees. What isn't finite has no value but a name.

    `others` are the numbers that were said with it, by name: those of further objectives, and those to look
    at. After an interrupt an attempt reports from the first step again; `interrupts` says which time it is.
    `requests` says how many requests for parameters were answered before: so which trial it is of.
    """

    written_by: ClassVar[frozenset[str]] = WORKER
    task_id: str
    attempt: int
    placement: int
    kind: Literal["PERIODICAL", "FINAL"]
    step: int
    value: float | None
    non_finite: NonFinite | None = None
    others: dict[str, Figure] = Field(default={})
    interrupts: int = 0
    requests: int = 0


class AttemptEnded(Event):
    """An attempt is over: by its worker's word, or by the scheduler's if the worker is lost.

    `limit` is which limit of host memory it was killed for, if known; `limit_bytes` the amount, if it is
    `max_memory` or `estimate`.
    `memory_measure` is how the peak of host memory was measured: `own` memory of the task, or all that is
    `resident` in its processes, as in older releases, with what the worker had loaded before.
    `reports` is how many `MetricReported` its placement has, None if its worker doesn't know.
    """

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
    peak_memory_bytes: int = 0
    peak_cuda_memory_bytes: int = 0
    memory_measure: Literal["resident", "own"] = "resident"
    limit: MemoryLimit | None = None
    limit_bytes: int = 0
    leftovers: tuple[str, ...] = ()
    reports: int | None = Field(default=None, exclude_if=is_absent)
