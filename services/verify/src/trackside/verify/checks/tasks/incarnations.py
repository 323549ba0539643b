"""INV-7: the incarnations of workers, from the fleet topic: when they joined and ended, their devices."""

from dataclasses import dataclass, field

from trackside.contracts.envelope.message import Event, Record
from trackside.contracts.fleet.fleet import Device, WorkerJoined, WorkerLeft, WorkerLost
from trackside.domain.checks.findings import Findings
from trackside.domain.fleet.fleet import Fleet
from trackside.domain.fleet.fleet import evolve as evolve_fleet
from trackside.domain.outcome import Outcome
from trackside.verify.checks.causes import CauseChecks


@dataclass(slots=True)
class IncarnationHistory:
    """One incarnation. Offsets are of the fleet topic, -1: not yet.

    `source` is who has written that it joined. `joined_sequence` and `left_sequence` are the numbers of these
    events among its own, 0 if unknown.
    """

    worker_id: str
    incarnation: str
    joined_offset: int
    devices: dict[str, Device]
    memory_bytes: int
    max_tasks: int
    memory_pool: str = ""
    end_offset: int = -1
    end: str = ""
    joined_sequence: int = 0
    left_sequence: int = 0
    source: str = ""


@dataclass(slots=True)
class IncarnationChecks:
    """Checks the fleet topic, and keeps all incarnations that ever joined, by name."""

    findings: Findings
    by_name: dict[str, IncarnationHistory] = field(default_factory=dict)
    newest: dict[str, str] = field(default_factory=dict)
    _fleet: Fleet = field(default_factory=Fleet)
    _read: int = 0
    _causes: CauseChecks = field(init=False)

    def __post_init__(self) -> None:
        """Makes the checks of causes in the fleet topic."""
        self._causes = CauseChecks(self.findings, required=False)

    def take(self, record: Record) -> None:
        """Checks one record of the fleet topic, in order; what the fold ignores is ignored here."""
        self._read = record.offset + 1
        if evolve_fleet(self._fleet, record) is not Outcome.APPLIED:
            return
        event = record.message
        self.findings.checked["INV-7"] += 1
        check_role(self.findings, record)
        self._causes.take(record)
        if isinstance(event, WorkerJoined):
            self._joined(event, record)
        elif isinstance(event, WorkerLeft | WorkerLost):
            self._ended(event, record)

    @property
    def read(self) -> int:
        """The offset after the last record of the fleet that was read."""
        return self._read

    def finish(self) -> None:
        """Reports the causes of streams that are not there."""
        self._causes.finish()

    def check_assigned(self, worker_id: str, name: str, seen: int, record: Record) -> None:
        """Checks an assignment that was decided on the fleet as it was before offset `seen`."""
        incarnation = self.by_name.get(name)
        target = f"incarnation {name} of worker {worker_id}"
        if seen > self._read > 0:
            self.findings.differs(record, "seen", seen, f"at most {self._read}, the end of the fleet")
        if incarnation is None or incarnation.worker_id != worker_id:
            self.findings.add("INV-7", record, f"assigned to {target}, which has never joined")
        elif 0 < seen <= incarnation.joined_offset:
            self.findings.add("INV-7", record, f"assigned to {target} before it had joined")
        elif 0 <= incarnation.end_offset < seen:
            self.findings.add("INV-7", record, f"assigned to {target}, which {incarnation.end}")

    def check_event(self, name: str, record: Record, *, adopts: bool = False) -> None:
        """Checks that a worker writes an event between its join and its leave, by its own numbers.

        What it writes of an attempt that it `adopts` may come before its join.
        """
        incarnation, sequence = self.by_name.get(name), record.envelope.sequence
        if incarnation is None or not sequence:
            return
        if sequence < incarnation.joined_sequence and not adopts:
            self.findings.add("INV-7", record, f"incarnation {name} acts before it has joined")
        elif 0 < incarnation.left_sequence < sequence:
            self.findings.add("INV-7", record, f"incarnation {name} acts after its worker had left")

    def check_writer(self, name: str, record: Record) -> None:
        """Checks that the events of a placement are written by the worker that has it."""
        incarnation, source = self.by_name.get(name), record.envelope.source
        if incarnation is not None and incarnation.source != source:
            message = f"it is by {source}, and incarnation {name} is {incarnation.source}"
            self.findings.add("INV-7", record, message)

    def _joined(self, event: WorkerJoined, record: Record) -> None:
        if event.incarnation in self.by_name:
            self.findings.add("INV-7", record, f"incarnation {event.incarnation} joins twice")
            return
        previous = self.by_name.get(self.newest.get(event.worker_id, ""))
        if previous is not None:
            _end(previous, "has joined again", record)
        self.newest[event.worker_id] = event.incarnation
        self.by_name[event.incarnation] = IncarnationHistory(
            worker_id=event.worker_id,
            incarnation=event.incarnation,
            joined_offset=record.offset,
            devices={device.device_id: device for device in event.devices},
            memory_bytes=event.memory_bytes,
            max_tasks=event.max_tasks,
            memory_pool=event.memory_pool,
            joined_sequence=record.envelope.sequence,
            source=record.envelope.source,
        )

    def _ended(self, event: WorkerLeft | WorkerLost, record: Record) -> None:
        incarnation = self.by_name.get(event.incarnation)
        how = "had left" if isinstance(event, WorkerLeft) else "was lost"
        if incarnation is None or self.newest.get(event.worker_id) != event.incarnation or incarnation.end:
            kind = type(event).__name__
            message = f"{kind} of incarnation {event.incarnation}, which was not there"
            self.findings.add("INV-7", record, message)
            return
        _end(incarnation, how, record)
        if isinstance(event, WorkerLeft):
            incarnation.left_sequence = record.envelope.sequence


def check_role(findings: Findings, record: Record) -> None:
    """Checks that an applied event is of a role that may write it."""
    event = record.message
    if isinstance(event, Event) and record.envelope.role not in event.written_by:
        allowed = " or ".join(sorted(event.written_by))
        role = record.envelope.role or "an unknown role"
        message = f"{type(event).__name__} is applied though {role} wrote it; only {allowed} may"
        findings.add("INV-7", record, message)


def _end(incarnation: IncarnationHistory, how: str, record: Record) -> None:
    if not incarnation.end:
        incarnation.end = how
        incarnation.end_offset = record.offset
