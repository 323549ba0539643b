"""What a verification says: the invariants, what was found against them, how much was looked at."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from trackside.contracts.message import Record


class Invariant(NamedTuple):
    """What must hold of every log, and in what is counted how much of it was looked at."""

    says: str
    unit: str


INVARIANTS: Mapping[str, Invariant] = {
    "INV-1": Invariant("each publication of a command is answered once", "publications"),
    "INV-2": Invariant("each task ends once, at the latest with its stream", "tasks"),
    "INV-3": Invariant("attempts and placements count 1 to n; each is accepted and ends once", "placements"),
    "INV-4": Invariant("devices have one task, or what fits; so has the host's memory", "uses"),
    "INV-5": Invariant("whatever a worker does was assigned to it before", "events of workers"),
    "INV-6": Invariant("placements of a task only rise", "events"),
    "INV-7": Invariant("who acts may: its role, and an incarnation that is there", "events"),
    "INV-8": Invariant("each record of the commands topic is received once", "records"),
    "INV-9": Invariant("decisions are whole", "decisions"),
    "INV-10": Invariant("every change of state is a legal one", "events"),
    "INV-11": Invariant("a step waits for its parents", "steps"),
    "INV-12": Invariant("trials, groups and tasks stay within limits and in order", "trials and tasks"),
    "INV-13": Invariant("snapshots are what the log folds to", "snapshots"),
    "INV-14": Invariant("nothing looks like a secret", "records"),
    "INV-15": Invariant("read models equal a rebuild", "rows"),
}
"""INV-16 and INV-17 are about what clients were told: the chaos tests know that, a log doesn't."""

NOT_YET = {"INV-11": "pipelines do not exist yet"}
NEEDS_POSTGRES = dict.fromkeys(("INV-13", "INV-15"), "needs --postgres")


class Where(NamedTuple):
    """The place of a record, without the record."""

    topic: str
    partition: int
    offset: int
    stream: str


def where(record: Record) -> Where:
    """Gives the place of a record."""
    return Where(record.topic, record.partition, record.offset, record.envelope.stream)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that must not be in a log, and the record where it shows; offset -1 where there is none."""

    invariant: str
    topic: str
    partition: int
    offset: int
    stream: str
    message: str

    def __str__(self) -> str:
        """Gives the line that people see."""
        place = self.topic if self.offset < 0 else f"{self.topic}-{self.partition}@{self.offset}"
        subject = f"{self.invariant} {place} {self.stream}".rstrip()
        return f"{subject}: {self.message}"


@dataclass(slots=True)
class Findings:
    """Collects what is found, and counts what was looked at by invariant."""

    found: list[Finding] = field(default_factory=list)
    checked: Counter[str] = field(default_factory=Counter)

    def add(self, invariant: str, place: Record | Where, message: str) -> None:
        """Notes an offence."""
        at = where(place) if isinstance(place, Record) else place
        self.found.append(Finding(invariant, *at, message))

    def illegal(self, record: Record, why: str) -> None:
        """Notes an event that may not come now."""
        self.add("INV-10", record, f"{type(record.message).__name__} is not legal now: {why}")

    def at_once(self, number: int, limit: int, what: str, record: Record) -> None:
        """Notes it if more go on at once than may."""
        if number > limit:
            self.add("INV-12", record, f"{number} {what} at once, the concurrency is {limit}")

    def sorted(self) -> list[Finding]:
        """Gives all findings in the order of the log, partition by partition."""
        return sorted(self.found, key=lambda f: (f.topic, f.partition, f.offset, f.invariant))
