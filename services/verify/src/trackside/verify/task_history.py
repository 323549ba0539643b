"""What the verifier has seen of each task, apart from the folded state."""

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum, auto

from trackside.contracts.resources import Needs
from trackside.contracts.tasks import AttemptEnd, Reservation, TaskStatus
from trackside.verify.devices import Holding

_RESOURCES = {AttemptEnd.OOM_HOST: "host", AttemptEnd.OOM_DEVICE: "device"}


class At(Enum):
    """Where a task is."""

    QUEUED = auto()
    PLACED = auto()
    ACTIVE = auto()
    ENDED = auto()


@dataclass(slots=True)
class TaskBook:
    """What was seen of a task. `earliest_ms`: not before then may it be placed again.

    `interrupts` are those of the attempt, by resource; `ends` counts how its attempts ended. `asked` says
    that its worker was told to end the placement, `exhausted` that its end allowed no other attempt, `held`
    that it may not be placed, for the time `holds`. `trial` is the one that it carries out, or did last if it
    is `idle`; `requested`, `answered` and `taken` count the requests of its placement for another one.
    """

    task_id: str
    needs: Needs
    queued_ms: int
    at: At = At.QUEUED
    attempt: int = 1
    placement: int = 0
    incarnation: str = ""
    reserved: Reservation = field(default_factory=Reservation)
    behind: bool = False
    holding: Holding | None = None
    earliest_ms: int = 0
    accepted_ms: int = 0
    reached: int = TaskStatus.INIT
    interrupts: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    steps: int | None = None
    final: bool = False
    stop: bool = False
    asked: bool = False
    held: bool = False
    holds: int = 0
    recalled: bool = False
    unschedulable: int = 0
    exhausted: bool = False
    trial: int | None = None
    idle: bool = False
    requested: int = 0
    answered: int = 0
    taken: int = 0

    @property
    def has_ended(self) -> bool:
        """Says whether the task is over."""
        return self.at is At.ENDED

    @property
    def interrupted(self) -> int:
        """How often the attempt was interrupted."""
        return sum(self.interrupts.values())

    def tries(self, end: AttemptEnd) -> int:
        """Counts what a policy counts of an end: running out of memory in training counts too."""
        return self.ends[end.value] + (self.ends[_RESOURCES[end]] if end in _RESOURCES else 0)

    @property
    def asks(self) -> bool:
        """Says whether its process waits for an answer."""
        return self.at is At.ACTIVE and self.requested > self.answered

    def rest(self) -> None:
        """Takes its trial from it."""
        self.idle, self.steps, self.final = True, None, False

    def go_on(self, trial: int) -> None:
        """Gives it another trial."""
        self.idle, self.trial, self.answered = False, trial, self.requested
