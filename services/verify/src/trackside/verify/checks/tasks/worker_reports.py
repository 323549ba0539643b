"""INV-25: what a worker says of a placement that it has counts, and nothing of it is missing.

The events of a placement are appended by one writer, in their order. So the fold may ignore one only because
of an event of somebody else before it: the placement has ended, another incarnation has adopted it, or it is
a copy. A number that an incarnation has drawn and no record has is a record that is lost, unless its process
has crashed.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any
from zlib import crc32

from trackside.contracts.envelope.message import Record
from trackside.contracts.fleet.fleet import WorkerJoined
from trackside.contracts.tasks.artifacts import ArtifactSaved, TaskResumed
from trackside.contracts.tasks.instructions import InstructionAcknowledged, TaskReady
from trackside.contracts.tasks.tasks import AttemptAdopted, AttemptEnded, MetricReported
from trackside.contracts.trust.trust import instance_of
from trackside.domain.checks.findings import Findings, RecordPosition, position_of
from trackside.verify.checks.tasks.incarnations import IncarnationHistory
from trackside.verify.checks.tasks.placement_events import WORKER_EVENTS
from trackside.verify.checks.tasks.task_history import TaskHistory, TaskPhase, describe_placement

OF_PLACEMENTS = WORKER_EVENTS | {
    MetricReported,
    ArtifactSaved,
    TaskResumed,
    TaskReady,
    InstructionAcknowledged,
}
CRASHED = frozenset({"was lost", "has joined again"})
"""The ends of incarnations that may leave numbers without records."""
SHOWN_NUMBERS = 10


@dataclass(slots=True)
class ReadNumbers:
    """The numbers of one incarnation that were read: all below `next`, and those of `beyond`."""

    position: RecordPosition
    next: int = 1
    beyond: set[int] = field(default_factory=set)

    def add(self, number: int) -> bool:
        """Adds a number; returns whether it is new."""
        if number < self.next or number in self.beyond:
            return False
        self.beyond.add(number)
        while self.next in self.beyond:
            self.beyond.discard(self.next)
            self.next += 1
        return True

    def missing(self) -> Iterator[int]:
        """Yields the numbers that are missing before the highest one, which may be any that was written."""
        last = max(self.beyond, default=0)
        return (number for number in range(self.next, last) if number not in self.beyond)


@dataclass(slots=True)
class WorkerReportChecks:
    """Checks the events of workers, also those without an effect, in any order of partitions."""

    findings: Findings
    _numbers: dict[str, ReadNumbers] = field(default_factory=dict)
    _earlier: dict[tuple[str, int, int, str], tuple[str, ...]] = field(default_factory=dict)
    """Whom an incarnation has named as earlier ones when it adopted a placement of a task."""
    _unreadable: dict[str, set[int]] = field(default_factory=dict)
    """The numbers of records that this reader can't read, by their writer."""

    def take(self, record: Record) -> bool:
        """Takes the number of a worker's record; returns whether it has none, or a record had it before."""
        number = record.envelope.sequence
        self.findings.checked["INV-25"] += record.envelope.role == "worker"
        if type(record.message) is AttemptAdopted and record.envelope.role == "worker":
            self._adopted(record.message, record)
        if record.envelope.role != "worker" or not number:
            return True
        incarnation = getattr(record.message, "incarnation", "")
        if not incarnation:
            self._unreadable.setdefault(record.envelope.source, set()).add(number)
            return True
        numbers = self._numbers.get(incarnation)
        if numbers is None:
            numbers = self._numbers[incarnation] = ReadNumbers(position_of(record))
        elif type(record.message) is WorkerJoined:
            numbers.position = position_of(record)
        return not numbers.add(number)

    def ignored(self, task: TaskHistory | None, record: Record, *, is_copy: bool) -> None:
        """Checks an event of a placement that the fold has ignored, as the task was before it."""
        event: Any = record.message
        name = f"{type(event).__name__} of task {event.task_id}"
        if task is None:
            self._add(record, f"{name}, which was never submitted")
            return
        said, current = (event.attempt, event.placement), (task.attempt, task.placement)
        if said > current or min(said) < 1:
            self._add(record, f"{name}: {describe_placement(*said)} was never assigned")
        elif said == current and task.phase in (TaskPhase.PLACED, TaskPhase.ACTIVE):
            self._of_current(task, event, name, record, is_copy)
        elif is_copy or type(event) is AttemptEnded:
            return  # it is said again when its command comes again
        elif task.adopted and fingerprint(record) in task.counted:
            return  # a worker that has adopted its task says again what the task said meanwhile
        elif (*said, getattr(event, "incarnation", "")) == task.ended_by:
            self._add(record, f"{name} comes after its worker has ended it")

    def _adopted(self, event: AttemptAdopted, record: Record) -> None:
        """Checks that a worker adopts for itself, and says each time the same of a placement."""
        name = f"AttemptAdopted of task {event.task_id}"
        if event.worker_id != instance_of(record):
            self._add(
                record, f"{name}: worker {instance_of(record)} says that {event.worker_id} has adopted it"
            )
        place = (event.task_id, event.attempt, event.placement, event.incarnation)
        if self._earlier.setdefault(place, tuple(event.earlier)) != tuple(event.earlier):
            self._add(record, f"{name} names other earlier incarnations than before")

    def finish(self, incarnations: Iterable[IncarnationHistory]) -> None:
        """Leaves open the numbers that are missing of incarnations that have not crashed."""
        for incarnation in incarnations:
            numbers = self._numbers.get(incarnation.incarnation)
            if numbers is None or incarnation.end in CRASHED:
                continue
            unreadable = self._unreadable.get(incarnation.source, set())
            missing = (number for number in numbers.missing() if number not in unreadable)
            if listed := ", ".join(str(number) for number in islice(missing, SHOWN_NUMBERS)):
                message = f"no record of incarnation {incarnation.incarnation} has number {listed}"
                self.findings.leave_open("INV-25", numbers.position, message)

    def _of_current(self, task: TaskHistory, event: Any, name: str, record: Record, is_copy: bool) -> None:
        if type(event) is MetricReported:
            below = task.last_step is not None and event.step < task.last_step
            if below and event.kind == "PERIODICAL" and fingerprint(record) not in task.reported:
                task.out_of_order = not task.adopted
            task.reported.add(fingerprint(record))
            trained = (event.interrupts, event.requests)
            if trained > (task.interrupted, task.requested) or min(trained) < 0:
                self._add(record, f"{name} is of a training that has not begun")
            return
        if type(event) is AttemptAdopted:
            return  # of an incarnation with the journal of another one
        if event.incarnation not in task.claimed:
            self._add(record, f"{name}: incarnation {event.incarnation} never had this placement")
        elif event.incarnation != task.incarnation or task.adopted or is_copy:
            return
        elif type(event) is InstructionAcknowledged and event.number <= task.instruction:
            return  # a newer one was given meanwhile
        elif fingerprint(record) not in task.counted:
            self._add(record, f"{name} has no effect, and nothing before it says why")

    def _add(self, record: Record, message: str) -> None:
        self.findings.leave_open("INV-25", record, message)


def is_report(record: Record) -> bool:
    """Returns whether a record is what a worker says of a placement."""
    return record.envelope.role == "worker" and type(record.message) in OF_PLACEMENTS


def fingerprint(record: Record) -> int:
    """Returns a checksum of what an event says: a command that comes twice is answered alike."""
    kind = type(record.message).__name__.encode()
    return crc32(record.value or repr(record.message).encode(), crc32(kind))
