"""A task: where it waits or runs, its attempts and its end. Drawn in ARCHITECTURE.md.

queued -> placed -> active -> ended        an attempt that was refused, returned or preempted goes back to
   ^________|__________|                   queued, or is cancelled; one that may be retried too, as the next
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from trackside.contracts.resources import Needs
from trackside.contracts.tasks import AttemptEnd, Figure, Reservation, TaskError, TaskStatus


class TaskState(StrEnum):
    """Where a task is: `placed` has a device, `active` is in its worker's journal."""

    QUEUED = "queued"
    PLACED = "placed"
    ACTIVE = "active"
    ENDED = "ended"


@dataclass(slots=True)
class Place:
    """The placement that holds now: the devices, and the incarnation of their worker."""

    worker_id: str
    incarnation: str
    device_ids: list[str]


@dataclass(slots=True)
class PastPlacement:
    """A placement that came to nothing: refused, returned or preempted; `code` says why it was refused."""

    placement: int
    worker_id: str
    device_ids: list[str]
    end: str
    assigned_ms: int
    accepted_ms: int
    ended_ms: int
    code: str = ""
    message: str = ""


@dataclass(slots=True)
class Attempt:
    """One try of a task; times are the log's, in ms since 1970, 0 for not yet.

    `reached` is the phase that it came to since its last interrupt: phases only go up from there. `stopping`
    is the end that the scheduler has asked its worker for; `recalled` says that the placement was asked back,
    `behind` that it waits at the worker for another one's device. `unschedulable` counts how often that was
    said, `interrupts` by resource how often it ran out of memory and went on.
    """

    number: int
    placement: int = 0
    worker_id: str = ""
    device_ids: list[str] = field(default_factory=list)
    reserved: Reservation = field(default_factory=Reservation)
    behind: bool = False
    recalled: bool = False
    stopping: AttemptEnd | None = None
    status: TaskStatus = TaskStatus.INIT
    reached: TaskStatus = TaskStatus.INIT
    unschedulable: int = 0
    interrupts: dict[str, int] = field(default_factory=dict)
    past: list[PastPlacement] = field(default_factory=list)
    assigned_ms: int = 0
    accepted_ms: int = 0
    ended_ms: int = 0
    load_time_ms: int = -1
    train_time_ms: int = -1
    end: AttemptEnd | None = None
    error: TaskError | None = None
    exit_code: int | None = None
    peak_memory_bytes: int = 0
    peak_cuda_memory_bytes: int = 0
    leftovers: tuple[str, ...] = ()

    @property
    def interrupted(self) -> int:
        """How often it ran out of memory and went on, whatever the memory."""
        return sum(self.interrupts.values()) if self.interrupts else 0


@dataclass(slots=True)
class Task:
    """A task as the log has it.

    `queued_at` orders the queue: (append time, partition, offset). `not_before_ms` is when a retry may be
    placed, `raised` the least that it shall reserve, `unschedulable` why nothing can run it now. `held` says
    that it shall not run now, `holds` how often that was said. `non_finite` and `others` belong to the value
    that decides now: the FINAL one, else the last.

    Offsets that decisions name as their cause, -1 for none: `changed_at` of the last event that changed where
    it waits or runs, `asked_at` of the last that asked its process to end, `reported_at` of its last report.

    Its process may ask for another trial: `requested`, `answered` and `taken` count the requests of this
    placement, `withheld` says that the last answer was that there is none. `trial` and `parameters` are those
    of the trial that it has now, or had last, if it is `idle`.
    """

    task_id: str
    task_type: str
    parameters: dict[str, Any]
    trial: int | None
    group: int | None
    name: str
    needs: Needs
    queued_at: tuple[int, int, int]
    traceparent: str = ""
    changed_at: int = -1
    asked_at: int = -1
    reported_at: int = -1
    estimated_by: Literal["task", "group"] = "task"
    state: TaskState = TaskState.QUEUED
    attempts: list[Attempt] = field(default_factory=lambda: [Attempt(1)])
    place: Place | None = None
    stop_reason: str = ""
    held: bool = False
    holds: int = 0
    not_before_ms: int = 0
    raised: Reservation | None = None
    unschedulable: str = ""
    reports: list[tuple[int, float | None]] = field(default_factory=list)
    final: float | None = None
    has_final: bool = False
    non_finite: str = ""
    others: dict[str, Figure] = field(default_factory=dict)
    end: AttemptEnd | None = None
    result: dict[str, Any] | None = None
    ended_ms: int = 0
    requested: int = 0
    answered: int = 0
    taken: int = 0
    withheld: bool = False
    idle: bool = False

    @property
    def asks(self) -> bool:
        """Says whether its process waits for an answer of the log."""
        return self.requested > self.answered and self.state is TaskState.ACTIVE

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
