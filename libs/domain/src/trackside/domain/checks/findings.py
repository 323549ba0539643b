"""Violations of invariants that a log shows, and how much was checked."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from trackside.contracts.envelope.message import Record


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
    """Collects findings, and counts checks by invariant.

    `open` has what a longer log may still set right, such as a command that waits for its answer.
    """

    found: list[Finding] = field(default_factory=list)
    open: list[Finding] = field(default_factory=list)
    checked: Counter[str] = field(default_factory=Counter)

    def add(self, invariant: str, place: Record | RecordPosition, message: str) -> None:
        """Adds a finding."""
        self.found.append(_finding(invariant, place, message))

    def leave_open(self, invariant: str, place: Record | RecordPosition, message: str) -> None:
        """Adds what is a violation only if nothing more is appended, and nobody else appends."""
        self.open.append(_finding(invariant, place, message))

    def illegal(self, record: Record, why: str) -> None:
        """Adds an event that isn't legal in this state."""
        self.add("INV-10", record, f"{type(record.message).__name__} is not legal now: {why}")

    def differs(self, record: Record, what: str, said: object, expected: object) -> None:
        """Adds that an event says something else than what it follows from, if it names that."""
        if not record.envelope.causation_id:
            return
        message = f"{type(record.message).__name__} has {what} {said!r:.100}, expected {expected!r:.100}"
        self.add("INV-26", record, message)

    def compare(self, record: Record, what: str, said: object, expected: object) -> None:
        """Compares what an event says with what it follows from; older releases did not name that."""
        if not record.envelope.causation_id:
            return
        self.checked["INV-26"] += 1
        if said != expected:
            self.differs(record, what, said, expected)

    def check_concurrency(self, number: int, limit: int, what: str, record: Record) -> None:
        """Adds a finding if more are active than allowed."""
        if number > limit:
            self.add("INV-12", record, f"{number} {what} at once, the concurrency is {limit}")

    def sorted(self) -> list[Finding]:
        """Returns all findings in the order of the log, partition by partition."""
        return in_order(self.found)


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Returns findings in the order of the log, partition by partition."""
    return sorted(findings, key=lambda f: (f.topic, f.partition, f.offset, f.invariant))


def _finding(invariant: str, place: Record | RecordPosition, message: str) -> Finding:
    return Finding(invariant, *(position_of(place) if isinstance(place, Record) else place), message)
