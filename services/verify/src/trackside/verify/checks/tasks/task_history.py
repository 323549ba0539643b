"""The state of each task as the verifier tracks it, independent of the folded state."""

from collections import Counter, deque
from dataclasses import dataclass, field
from enum import Enum, auto

from trackside.contracts.envelope.message import Json
from trackside.contracts.envelope.parts import Part
from trackside.contracts.tasks.resources import Needs
from trackside.contracts.tasks.tasks import AttemptEnd, MetricReported, Reservation, TaskStatus, TaskSubmitted
from trackside.domain.checks.invariants import KEPT_DETAILS
from trackside.verify.checks.tasks.devices import AssignedPlace

_INTERRUPTS_OF = {AttemptEnd.OOM_HOST: "host", AttemptEnd.OOM_DEVICE: "device"}


class TaskPhase(Enum):
    """The phase of a task: in the queue, placed on a worker, accepted by it, or over."""

    QUEUED = auto()
    PLACED = auto()
    ACTIVE = auto()
    ENDED = auto()


@dataclass(slots=True)
class TaskHistory:
    """The state of a task. It may not be placed again before `not_before_ms`.

    `assigned_at` is the offset of its last assignment, `final` its FINAL value. `adopted`: `incarnation` has
    taken its placement over from an earlier one of the same worker.
    `interrupts` are those of the attempt, by resource; `ends` counts the ends of its attempts by kind.
    `end_requested`: its worker must end the placement. `exhausted`: the retry policy allows no further
    attempt. `held`: it may not be placed, by hold number `hold_number`. `part` is what it is for, or was last
    if it is `idle`; `requested`, `answered`, `taken` and `continued` count the requests of its
    placement for another trial. `checkpoints` are the digests and steps of those that it has saved, or was
    given, `candidates` those of its part, `versions` the newest ones of what it has saved, by name, `needed`
    the digests that it was given;
    `saved`, `ready` and `acknowledged` the newest numbers that its placement has said of artifacts, of
    being ready, and of instructions. `resumed`: its training continues from a checkpoint. `failures` counts
    the attempts of a service since one that had been ready, at `ready_ms` first, for long.
    `claimed` are the incarnations that have said they adopt its placement. `end` is how its last attempt has
    ended, in the words of AttemptEnd, `stop_reason` why it was asked to stop, `result` what it has returned.
    `said` is the last report of its part that counts; all of its `trainings` but the last one are over.
    `reports` are those of a trial that goes on, by their offsets.
    `counted` are checksums of what its worker has said of the placement, `reported` of the values among
    that, of which one was `out_of_order`. `saved_as` has what was said of its checkpoints, by digest.
    `ended_by` is the placement and the incarnation of the last end that a worker has written.
    """

    task_id: str
    needs: Needs
    queued_ms: int
    phase: TaskPhase = TaskPhase.QUEUED
    attempt: int = 1
    placement: int = 0
    incarnation: str = ""
    adopted: bool = False
    assigned_at: int = -1
    final: float | None = None
    reserved: Reservation = field(default_factory=Reservation)
    behind: bool = False
    place: AssignedPlace | None = None
    not_before_ms: int = 0
    accepted_ms: int = 0
    status: int = TaskStatus.INIT
    interrupts: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    last_step: int | None = None
    has_final: bool = False
    stop_requested: bool = False
    end_requested: bool = False
    held: bool = False
    hold_number: int = 0
    recalled: bool = False
    unschedulable: int = 0
    exhausted: bool = False
    part: Part | None = None
    idle: bool = False
    requested: int = 0
    answered: int = 0
    taken: int = 0
    continued: int = 0
    checkpoints: set[tuple[str, int]] = field(default_factory=set)
    candidates: list[tuple[str, int]] = field(default_factory=list)
    needed: set[str] = field(default_factory=set)
    versions: dict[str, int] = field(default_factory=dict)
    failures: int = 0
    ready_ms: int = 0
    saved: int = 0
    resumed: bool = False
    ready: int = 0
    instruction: int = 0
    acknowledged: int = 0
    submitted: TaskSubmitted | None = None
    claimed: set[str] = field(default_factory=set)
    end: str = ""
    stop_reason: str = ""
    result: Json | None = None
    said: MetricReported | None = None
    trainings: int = 1
    reports: dict[int, MetricReported] = field(default_factory=dict)
    counted: set[int] = field(default_factory=set)
    reported: set[int] = field(default_factory=set)
    out_of_order: bool = False
    saved_as: dict[str, list[tuple[str, int, str, str]]] = field(default_factory=dict)
    ended_by: tuple[int, int, str] | None = None
    changed_at: int = -1
    """The offset of its last event."""
    details: deque[Json] = field(default_factory=lambda: deque(maxlen=KEPT_DETAILS))
    """What its process has said last while it was ready."""

    @property
    def has_ended(self) -> bool:
        """Returns whether the task is over."""
        return self.phase is TaskPhase.ENDED

    @property
    def succeeded(self) -> bool:
        """Returns whether the task is over, and its last attempt has finished."""
        return self.has_ended and self.ends[AttemptEnd.FINISHED.value] > 0

    @property
    def interrupted(self) -> int:
        """The number of interrupts of the attempt."""
        return sum(self.interrupts.values())

    def failures_of(self, end: AttemptEnd) -> int:
        """Returns what a retry policy counts of an end, with interrupts that ran out of the same memory."""
        return self.ends[end.value] + (self.ends[_INTERRUPTS_OF[end]] if end in _INTERRUPTS_OF else 0)

    @property
    def awaits_parameters(self) -> bool:
        """Returns whether its process waits for the answer to a request."""
        return self.phase is TaskPhase.ACTIVE and self.requested > self.answered

    @property
    def may_go_on(self) -> bool:
        """Returns whether it is idle and may be given another trial."""
        return self.idle and self.awaits_parameters and not self.stop_requested and not self.end_requested

    def reset(self) -> None:
        """Forgets what its placement had reached."""
        self.place = None
        self.status, self.last_step, self.has_final = TaskStatus.INIT, None, False

    def finish(self, end: AttemptEnd = AttemptEnd.CANCELLED) -> None:
        """Ends it; one that was asked to stop is cancelled, unless it has finished."""
        has_final = self.has_final
        self.reset()
        stopped = self.stop_requested and end is not AttemptEnd.FINISHED
        self.phase, self.end = TaskPhase.ENDED, (AttemptEnd.CANCELLED if stopped else end).value
        self.has_final = has_final

    def release(self) -> None:
        """Ends its trial: it is idle."""
        self.idle, self.last_step, self.has_final = True, None, False
        self.candidates, self.resumed, self.said = [], False, None
        self.saved_as.clear()
        self.reports.clear()

    def assign_part(self, part: Part) -> None:
        """Assigns another part, such as a trial, to it."""
        self.idle, self.part, self.answered = False, part, self.requested


def describe_placement(attempt: int, placement: int) -> str:
    """Returns the text that names a placement of a task."""
    return f"attempt {attempt} placement {placement}"
