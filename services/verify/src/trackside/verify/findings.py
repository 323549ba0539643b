"""The invariants of a log, the violations that were found, and how much was checked."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from trackside.contracts.message import Record


class Invariant(NamedTuple):
    """What must hold of every log, and the unit in which checks of it are counted."""

    statement: str
    unit: str


INVARIANTS: Mapping[str, Invariant] = {
    "INV-1": Invariant("each publication of a command is answered once", "publications"),
    "INV-2": Invariant("each task ends once, at the latest with its stream", "tasks"),
    "INV-3": Invariant("attempts and placements count 1 to n; each is accepted and ends once", "placements"),
    "INV-4": Invariant("devices have one task, or what fits; so has the host's memory", "uses"),
    "INV-5": Invariant("workers do only what was assigned to them before", "events of workers"),
    "INV-6": Invariant("the numbers of a task's placements only rise", "events"),
    "INV-7": Invariant(
        "events are written by roles that may, and by incarnations that have joined", "events"
    ),
    "INV-8": Invariant("each record of the commands topic is received once", "records"),
    "INV-9": Invariant("decisions are atomic", "decisions"),
    "INV-10": Invariant("every change of state is legal", "events"),
    "INV-11": Invariant("a step waits for its parents", "steps"),
    "INV-12": Invariant("trials, groups and tasks stay within limits and in order", "trials and tasks"),
    "INV-13": Invariant("snapshots are what the log folds to", "snapshots"),
    "INV-14": Invariant("nothing looks like a secret", "records"),
    "INV-15": Invariant("read models equal a rebuild", "rows"),
    "INV-18": Invariant("a named cause is an applied event that lies before its event", "causes"),
}
"""INV-16 and INV-17 are about answers to clients, which the log doesn't have: the chaos tests check them."""

NOT_YET = {"INV-11": "pipelines do not exist yet"}
NEEDS_POSTGRES = dict.fromkeys(("INV-13", "INV-15"), "needs --postgres")


class RecordPosition(NamedTuple):
    """The position of a record, without the record."""

    topic: str
    partition: int
    offset: int
    stream: str


def position_of(record: Record) -> RecordPosition:
    """Returns the position of a record."""
    return RecordPosition(record.topic, record.partition, record.offset, record.envelope.stream)


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation of an invariant, and the record where it shows; offset -1: there is no such record."""

    invariant: str
    topic: str
    partition: int
    offset: int
    stream: str
    message: str

    def __str__(self) -> str:
        """Returns the line that is printed."""
        place = self.topic if self.offset < 0 else f"{self.topic}-{self.partition}@{self.offset}"
        subject = f"{self.invariant} {place} {self.stream}".rstrip()
        return f"{subject}: {self.message}"


@dataclass(slots=True)
class Findings:
    """Collects findings, and counts checks by invariant."""

    found: list[Finding] = field(default_factory=list)
    checked: Counter[str] = field(default_factory=Counter)

    def add(self, invariant: str, place: Record | RecordPosition, message: str) -> None:
        """Adds a finding."""
        at = position_of(place) if isinstance(place, Record) else place
        self.found.append(Finding(invariant, *at, message))

    def illegal(self, record: Record, why: str) -> None:
        """Adds an event that isn't legal in this state."""
        self.add("INV-10", record, f"{type(record.message).__name__} is not legal now: {why}")

    def check_concurrency(self, number: int, limit: int, what: str, record: Record) -> None:
        """Adds a finding if more are active than allowed."""
        if number > limit:
            self.add("INV-12", record, f"{number} {what} at once, the concurrency is {limit}")

    def sorted(self) -> list[Finding]:
        """Returns all findings in the order of the log, partition by partition."""
        return sorted(self.found, key=lambda f: (f.topic, f.partition, f.offset, f.invariant))
