"""INV-7: the incarnations of workers, from the fleet topic: when each was there, and with what."""

from dataclasses import dataclass, field

from trackside.contracts.fleet import Device, WorkerJoined, WorkerLeft, WorkerLost
from trackside.contracts.message import Event, Record
from trackside.domain.fleet import Fleet
from trackside.domain.fleet import evolve as evolve_fleet
from trackside.domain.outcome import Outcome
from trackside.verify.findings import Findings

LATE_MS = 10_000
"""How much later a worker's last words may come than its goodbye or its next join, in other partitions.

Of a worker that was lost any word counts until the scheduler has ended its attempt: there is no limit.
"""
SKEW_MS = 1_000
"""How much the clocks of a cluster's brokers may differ."""


@dataclass(slots=True)
class Life:
    """One incarnation. Offsets are of the fleet topic, -1 for not yet; `silent_ms` ends its last words."""

    worker_id: str
    incarnation: str
    joined_at: int
    joined_ms: int
    devices: dict[str, Device]
    memory_bytes: int
    max_tasks: int
    gone_at: int = -1
    gone_ms: int | None = None
    gone: str = ""
    silent_ms: int | None = None


@dataclass(slots=True)
class Lives:
    """All incarnations that ever joined, by name."""

    findings: Findings
    by_name: dict[str, Life] = field(default_factory=dict)
    newest: dict[str, str] = field(default_factory=dict)
    _fleet: Fleet = field(default_factory=Fleet)

    def take(self, record: Record) -> None:
        """Reads one record of the fleet topic, in order; one that the fold ignores says nothing."""
        if evolve_fleet(self._fleet, record) is not Outcome.APPLIED:
            return
        event = record.message
        self.findings.checked["INV-7"] += 1
        check_role(self.findings, record)
        if isinstance(event, WorkerJoined):
            self._joined(event, record)
        elif isinstance(event, WorkerLeft | WorkerLost):
            self._gone(event, record)

    def check_assigned(self, worker_id: str, incarnation: str, seen: int, record: Record) -> None:
        """Judges an assignment that was decided upon the fleet as it was before offset `seen`."""
        life = self.by_name.get(incarnation)
        said = f"incarnation {incarnation} of worker {worker_id}"
        if life is None or life.worker_id != worker_id:
            self.findings.add("INV-7", record, f"assigned to {said}, which has never joined")
        elif 0 < seen <= life.joined_at:
            self.findings.add("INV-7", record, f"assigned to {said} before it had joined")
        elif 0 <= life.gone_at < seen:
            self.findings.add("INV-7", record, f"assigned to {said}, which {life.gone}")

    def check_said(self, incarnation: str, record: Record) -> None:
        """Judges when a worker says something."""
        life, time_ms = self.by_name.get(incarnation), record.append_time_ms
        if life is None:
            return
        if time_ms < life.joined_ms - SKEW_MS:
            self.findings.add("INV-7", record, f"incarnation {incarnation} acts before it has joined")
        elif life.silent_ms is not None and time_ms > life.silent_ms + LATE_MS:
            late_s = (time_ms - life.silent_ms) / 1000
            message = f"incarnation {incarnation} acts {late_s:.1f} s after its worker {life.gone}"
            self.findings.add("INV-7", record, message)

    def _joined(self, event: WorkerJoined, record: Record) -> None:
        if event.incarnation in self.by_name:
            self.findings.add("INV-7", record, f"incarnation {event.incarnation} joins twice")
            return
        before = self.by_name.get(self.newest.get(event.worker_id, ""))
        if before is not None:
            _end(before, "has joined anew", record)
            before.silent_ms = record.append_time_ms if before.silent_ms is None else before.silent_ms
        self.newest[event.worker_id] = event.incarnation
        self.by_name[event.incarnation] = Life(
            worker_id=event.worker_id,
            incarnation=event.incarnation,
            joined_at=record.offset,
            joined_ms=record.append_time_ms,
            devices={device.device_id: device for device in event.devices},
            memory_bytes=event.memory_bytes,
            max_tasks=event.max_tasks,
        )

    def _gone(self, event: WorkerLeft | WorkerLost, record: Record) -> None:
        life = self.by_name.get(event.incarnation)
        how = "had left" if isinstance(event, WorkerLeft) else "was lost"
        if life is None or self.newest.get(event.worker_id) != event.incarnation or life.gone:
            what = type(event).__name__
            message = f"{what} of incarnation {event.incarnation}, which was not there"
            self.findings.add("INV-7", record, message)
            return
        _end(life, how, record)
        if isinstance(event, WorkerLeft):
            life.silent_ms = record.append_time_ms


def check_role(findings: Findings, record: Record) -> None:
    """Judges whether an event that counts is of a role that may write it."""
    event = record.message
    if isinstance(event, Event) and record.envelope.role not in event.written_by:
        allowed = " or ".join(sorted(event.written_by))
        who = record.envelope.role or "nobody we know"
        message = f"{type(event).__name__} counts by the word of {who}; only {allowed} may say it"
        findings.add("INV-7", record, message)


def _end(life: Life, how: str, record: Record) -> None:
    if not life.gone:
        life.gone, life.gone_at, life.gone_ms = how, record.offset, record.append_time_ms
