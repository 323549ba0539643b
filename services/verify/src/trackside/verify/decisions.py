"""INV-9: a decision is whole. All its events are there, in order, and they count together or not at all."""

from dataclasses import dataclass, field

from trackside.contracts.batches import BatchStopRequested
from trackside.contracts.message import Record
from trackside.contracts.searches import SearchStopRequested
from trackside.contracts.tasks import TaskStopRequested
from trackside.domain.outcome import Outcome
from trackside.verify.findings import Findings, Where, where

MAY_BE_TOO_LATE = (TaskStopRequested, SearchStopRequested, BatchStopRequested)
"""What is to be stopped may have ended since it was decided: that alone of a decision may come to nothing."""


@dataclass(slots=True)
class _Open:
    """A decision of which more is to come; `place` is that of its first event."""

    name: bytes
    count: int
    counts: bool
    place: Where
    next_index: int = 1


@dataclass(slots=True)
class Decisions:
    """Judges records partition by partition, those that don't count too."""

    findings: Findings
    _open: dict[int, _Open] = field(default_factory=dict)

    def take(self, record: Record, outcome: Outcome) -> None:
        """Judges one record, in the order of its partition."""
        name, index = record.envelope.decision_id, record.envelope.index
        decision = self._open.get(record.partition)
        applied = outcome is Outcome.APPLIED
        if decision is not None and (decision.name, decision.next_index) == (name, index):
            self._next(decision, record, applied)
            return
        self._torn(self._open.pop(record.partition, None))
        if not name:
            return
        if index == 0:
            count = _count(record)
            self.findings.checked["INV-9"] += applied
            if count > 1:
                self._open[record.partition] = _Open(name, count, applied, where(record))
        elif applied:
            message = f"event {index} of a decision counts, and those before it are not there"
            self.findings.add("INV-9", record, message)

    def finish(self) -> None:
        """Finds decisions that the log ends in the midst of: an append is whole, so that can't be."""
        for decision in self._open.values():
            self._torn(decision)

    def _next(self, decision: _Open, record: Record, applied: bool) -> None:
        kind = type(record.message).__name__
        if decision.counts and not applied and not isinstance(record.message, MAY_BE_TOO_LATE):
            message = f"{kind}, event {decision.next_index} of a decision that counts, does not"
            self.findings.add("INV-9", record, message)
        elif applied and not decision.counts:
            message = f"{kind}, event {decision.next_index} of a decision, counts though the first does not"
            self.findings.add("INV-9", record, message)
        decision.next_index += 1
        if decision.next_index == decision.count:
            del self._open[record.partition]

    def _torn(self, decision: _Open | None) -> None:
        if decision is not None and decision.counts:
            message = f"of the {decision.count} events of this decision only {decision.next_index} are there"
            self.findings.add("INV-9", decision.place, message)


def _count(record: Record) -> int:
    octets = record.envelope.headers.get("ce_count", b"1")
    return int(octets) if octets.isdigit() and len(octets) < 10 else 1
