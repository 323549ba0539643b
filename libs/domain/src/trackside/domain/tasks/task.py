"""A task: where it waits or runs, its attempts and its end. Drawn in ARCHITECTURE.md.

queued -> placed -> active -> ended        an attempt that was refused, returned or preempted goes back to
   ^________|__________|                   queued, or is cancelled; one that may be retried too, as the next
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from trackside.contracts.envelope.message import Json
from trackside.contracts.envelope.parts import Part
from trackside.contracts.tasks.artifacts import ArtifactReference, CheckpointReference
from trackside.contracts.tasks.instructions import Instruction
from trackside.contracts.tasks.resources import MemoryLimit, Needs
from trackside.contracts.tasks.tasks import AttemptEnd, Figure, Reservation, TaskError, TaskStatus

NO_RESERVATION = Reservation()
"""One for all attempts that have no placement: many tasks wait at once."""
MAX_NEEDS = 1_000
"""How many different requests are kept to be shared."""
_NEEDS: dict[str, Needs] = {}


def shared(needs: Needs) -> Needs:
    """Returns one object for all tasks that request the same: it is most of what a waiting task takes."""
    if len(_NEEDS) >= MAX_NEEDS:
        _NEEDS.clear()
    return _NEEDS.setdefault(needs.model_dump_json(), needs)


class TaskState(StrEnum):
    """Where a task is: `placed` has a device, `active` is in its worker's journal."""

    QUEUED = "queued"
    PLACED = "placed"
    ACTIVE = "active"
    ENDED = "ended"


_EXCEPTIONS = frozenset({AttemptEnd.FAILED, AttemptEnd.OOM_HOST, AttemptEnd.OOM_DEVICE})


def last_status(end: AttemptEnd) -> TaskStatus:
    """Returns the phase in which an attempt ends."""
    if end is AttemptEnd.FINISHED:
        return TaskStatus.FINISHED
    return TaskStatus.EXCEPTION if end in _EXCEPTIONS else TaskStatus.EXITED


@dataclass(slots=True)
class Place:
    """The placement that a task has now."""

    worker_id: str
    """The worker that it is assigned to."""
    incarnation: str
    """The incarnation of that worker that has it: events of another one are ignored. Adopting changes it."""
    device_ids: list[str]
    """The ids of its devices on that worker."""


@dataclass(slots=True)
class PastPlacement:
    """A placement that ended without ending its attempt: the same attempt went back to the queue."""

    placement: int
    """Counts the placements of the attempt from 1."""
    worker_id: str
    """The worker that it was assigned to."""
    device_ids: list[str]
    """The ids of its devices on that worker."""
    end: str
    """How it ended: refused, returned or preempted."""
    assigned_ms: int
    """When it was assigned: append time of TaskAssigned, in ms since 1970."""
    accepted_ms: int
    """When its worker accepted it: append time of TaskAccepted, in ms since 1970; 0 if it never did."""
    ended_ms: int
    """When it ended: append time of that event, in ms since 1970."""
    code: str = ""
    """Why the worker refused it, as a code to act on; empty unless it was refused."""
    message: str = ""
    """Why the worker refused it, as a sentence; empty unless it was refused."""
    resumed: CheckpointReference | None = None
    """The checkpoint that its last training continued from; None if that began with the first step."""


@dataclass(slots=True)
class SavedArtifact:
    """The newest version of an artifact that a task has saved."""

    version: int
    """Counts what the task has saved under this name, from 1."""
    kind: str
    """What it is: `model`, `result`, `file`, or the user's own word; checkpoints are kept on their own."""
    reference: ArtifactReference
    """Its digest, its size, and where its bytes are."""
    attempt: int = 0
    """The number of the attempt that saved it; 0 if that isn't known."""
    saved_at: int = -1
    """Offset of ArtifactSaved; -1 if it was taken over from another run."""
    metadata: Json = field(default_factory=dict)
    """What a model was saved with, such as `format`; empty for other kinds."""


@dataclass(slots=True)
class SavedCheckpoint:
    """A checkpoint of a task that is kept."""

    reference: CheckpointReference
    """Its digest, its size, where its bytes are, and the step that training continues with."""
    value: float | None
    """The last finite value that was reported of a step before it; None without one."""
    saved_at: int
    """Offset of ArtifactSaved."""


@dataclass(slots=True)
class Attempt:
    """One attempt of a task; its times are append times of the log."""

    number: int
    """Counts the attempts of the task from 1."""
    placement: int = 0
    """The number of its newest placement, from 1; 0 before the first."""
    worker_id: str = ""
    """The worker of its newest placement, also after that has ended; empty before the first."""
    incarnations: tuple[str, ...] = ()
    """The incarnations of that worker that have had its newest placement: the one that it was assigned to,
    then those that adopted it, the newest last. Empty before the first placement.
    """
    device_ids: list[str] = field(default_factory=list)
    """The device ids of its newest placement, also after that has ended; empty before the first."""
    reserved: Reservation = field(default_factory=lambda: NO_RESERVATION)
    """The memory that its newest placement reserves; raised by an interrupt."""
    behind: bool = False
    """Whether its newest placement was assigned while another task still had the device."""
    recalled: bool = False
    """Whether its newest placement was asked back and has not started since."""
    stopping: AttemptEnd | None = None
    """The end that its worker was asked for, preempted or timed_out_run; None if it was not asked."""
    status: TaskStatus = TaskStatus.INIT
    """The phase that it is in, or ended in; INTERRUPT after it ran out of memory in training."""
    reached: TaskStatus = TaskStatus.INIT
    """The furthest phase since its last interrupt, which sets it to LOADING: later ones must be higher."""
    unschedulable: int = 0
    """How many times no worker could run it: the number of the newest TaskUnschedulable, 0 for none."""
    interrupts: dict[str, int] = field(default_factory=dict)
    """How many times it ran out of memory in training and continued, by resource: host or device."""
    past: list[PastPlacement] = field(default_factory=list)
    """Its earlier placements, oldest first."""
    saved: int = 0
    """The number of the newest artifact that its newest placement has saved; 0 for none."""
    resumed: CheckpointReference | None = None
    """The checkpoint that its newest training continued from; None if it began with the first step."""
    ready_ms: int = 0
    """When its newest placement was ready first, as a service, in ms since 1970; 0 before that."""
    ready_number: int = 0
    """How often its newest placement has said that it is ready."""
    ready: dict[str, Any] = field(default_factory=dict)
    """What its newest placement said when it was ready, such as its address; empty before that."""
    assigned_ms: int = 0
    """When its newest placement was assigned, in ms since 1970; 0 before the first."""
    accepted_ms: int = 0
    """When the worker accepted its newest placement, in ms since 1970; 0 before that."""
    ended_ms: int = 0
    """When it ended, in ms since 1970; 0 before that."""
    load_time_ms: int = -1
    """How long `load` took, in ms as the process measured it; -1 if it did not return, or before the end."""
    train_time_ms: int = -1
    """How long `train` took, in ms as the process measured it; -1 if it did not return, or before the end."""
    end: AttemptEnd | None = None
    """How it ended; None before that."""
    error: TaskError | None = None
    """What it failed of, or why no worker took it; None without a failure, or before the end."""
    exit_code: int | None = None
    """The exit code of its process, negative for a signal; None if unknown, or before the end."""
    peak_memory_bytes: int = 0
    """The peak of its own memory on the host, in bytes; 0 if unknown, as in older logs, or before the end."""
    peak_cuda_memory_bytes: int = 0
    """The peak of its memory on one of its devices, in bytes; 0 if unknown, or before the end."""
    limit: MemoryLimit | None = None
    """Which limit of host memory it was killed for; None if it was not, if unknown, or before the end."""
    limit_bytes: int = 0
    """That limit, in bytes, if it is `max_memory`; else 0."""
    leftovers: tuple[str, ...] = ()
    """The names of up to 10 processes that it left running, which were killed at its end."""

    @property
    def interrupted(self) -> int:
        """How often it ran out of memory and went on, whatever the memory."""
        return sum(self.interrupts.values()) if self.interrupts else 0


@dataclass(slots=True)
class Task:
    """A task as folded from the log; its times are append times, in ms since 1970."""

    task_id: str
    """Its id, unique in its stream."""
    task_type: str
    """The name of its class in the catalogue of workers."""
    parameters: dict[str, Any]
    """The parameters of `part`."""
    part: Part | None
    """What of its aggregate it is for, such as the trial that it runs, or ran last if it is `idle`.
    None for a task of no aggregate.
    """
    needs: Needs
    """What it requests from the scheduler: queue, priority, resources, retries and time limits."""
    queued_at: tuple[int, int, int]
    """Its place in the queue, lowest first: (append time in ms, partition, offset) of TaskSubmitted or, for a
    retry, of the end of the attempt before. It stays the same when a placement ends without its attempt.
    """
    traceparent: str = ""
    """The trace context of TaskSubmitted (W3C); empty if it has none."""
    changed_at: int = -1
    """Offset of the last event that changed where it waits or runs; a cause of later decisions. -1: none."""
    asked_at: int = -1
    """Offset of the last event that asked its process to end; a cause of later decisions. -1: none."""
    reported_at: int = -1
    """Offset of its last report that counted; a cause of later decisions. -1: none."""
    estimated_by: Literal["task", "group"] = "task"
    """Who gave its memory estimates: the task, or its group or batch."""
    state: TaskState = TaskState.QUEUED
    """Whether it waits, has a device, runs or has ended."""
    attempts: list[Attempt] = field(default_factory=lambda: [Attempt(1)])
    """Its attempts, oldest first; the last one is the current one. Never empty."""
    place: Place | None = None
    """Its placement; None while it is queued and after its end."""
    stop_reason: str = ""
    """Why it was asked to end: the reason of the first TaskStopRequested; empty if it was not asked."""
    held: bool = False
    """Whether it must not run now, because its search is paused."""
    holds: int = 0
    """How many times it was held: the number of the newest TaskHeld, 0 for none."""
    not_before_ms: int = 0
    """The earliest time that it may be placed, after a retry's backoff or a hold; 0 for any time."""
    raised: Reservation | None = None
    """The least memory that it reserves from now on, since it ran out of memory; None if it never did."""
    unschedulable: str = ""
    """Why no worker that was there could run it, as a sentence; empty otherwise, and once it is placed."""
    reports: list[tuple[int, float | None]] = field(default_factory=list)
    """The (step, value) that its trial has reported in this training; steps rise. None: not finite."""
    final: float | None = None
    """The FINAL value; None before it, and if it is not finite."""
    has_final: bool = False
    """Whether a FINAL value was reported: later ones are ignored."""
    non_finite: str = ""
    """The deciding value (FINAL, else the last) if it is not finite: nan, inf or -inf; else empty."""
    others: dict[str, Figure] = field(default_factory=dict)
    """The other numbers reported with the deciding value, by name: further objectives, and for display."""
    end: AttemptEnd | None = None
    """How it ended; None before that."""
    result: dict[str, Any] | None = None
    """What `train` returned; None before the end, and if it returned nothing."""
    ended_ms: int = 0
    """When it ended; 0 before that."""
    requested: int = 0
    """The number of its process's newest request for another trial; 0 for none in this placement."""
    answered: int = 0
    """The newest request that was answered, with parameters or without; 0 for none in this placement."""
    taken: int = 0
    """The newest request whose answer its process has received; 0 for none in this placement."""
    continued: int = 0
    """The newest request that TaskContinued answered; 0 for none in this placement, and in logs of older
    releases, which have no such event.
    """
    withheld: bool = False
    """Whether its newest answer was that there is no other trial."""
    inputs: dict[str, ArtifactReference] = field(default_factory=dict)
    """The artifacts that it was given, by the names that it knows them by."""
    checkpoint: CheckpointReference | None = None
    """The checkpoint of another task that it begins with; None if it begins with the first step."""
    step_limit: int | None = None
    """It is over when it has reported the step before this one; None without a limit."""
    artifacts: dict[str, SavedArtifact] = field(default_factory=dict)
    """The newest version of each artifact that it has saved, by name; without checkpoints."""
    saved: int = 0
    """How many artifacts it has saved, checkpoints not counted."""
    checkpoints: list[SavedCheckpoint] = field(default_factory=list)
    """The checkpoints that are kept, oldest first; empty again when its next part begins."""
    checkpoint_version: int = 0
    """The newest version of its checkpoints; 0 before the first."""
    earlier: list[tuple[int, float | None]] = field(default_factory=list)
    """What earlier trainings have reported, the newest value of each step: it counts again if one resumes.
    Steps rise; empty once the newest training has come as far.
    """
    earlier_beside: tuple[str, dict[str, Figure]] | None = None
    """`non_finite` and `others` of the last report in `earlier`; None after a FINAL value, or without one."""
    instruction: Instruction | None = None
    """Its newest instruction; None before the first."""
    acknowledged: int = 0
    """The number of the newest instruction that its newest placement has acknowledged; 0 for none."""
    acknowledgement: tuple[bool, dict[str, Any]] | None = None
    """Whether the newest instruction that was acknowledged was carried out, and what the task said of it."""
    idle: bool = False
    """Whether its trial has ended and it has no next one: it runs on, or has ended, without a trial."""

    @property
    def asks(self) -> bool:
        """Returns whether its process waits for an answer of the log."""
        return self.requested > self.answered and self.state is TaskState.ACTIVE

    def has_placement(self, attempt: int, placement: int, incarnation: str) -> bool:
        """Returns whether this placement, of that incarnation of its worker, is the one that it has now."""
        now, place = self.attempts[-1], self.place
        return place is not None and (now.number, now.placement, place.incarnation) == (
            attempt,
            placement,
            incarnation,
        )

    def runs(self, attempt: int, placement: int, incarnation: str) -> bool:
        """Returns whether this placement is the one that it has now, and its worker has accepted it."""
        return self.state is TaskState.ACTIVE and self.has_placement(attempt, placement, incarnation)

    @property
    def attempt(self) -> Attempt:
        """The attempt that counts now."""
        return self.attempts[-1]

    @property
    def due_ms(self) -> int | None:
        """When the time limit that counts now is reached: of waiting, or of running; None without one."""
        if self.held:
            return None
        if self.state is TaskState.QUEUED and self.needs.queue_timeout_s is not None:
            return max(self.queued_at[0], self.not_before_ms) + int(self.needs.queue_timeout_s * 1000)
        running = self.state is TaskState.ACTIVE and self.attempt.stopping is None
        if running and self.needs.run_timeout_s is not None:
            return self.attempt.accepted_ms + int(self.needs.run_timeout_s * 1000)
        return None
