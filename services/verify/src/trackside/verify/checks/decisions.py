"""INV-9: decisions are atomic: all events are there, in order, and applied together or not at all."""

from dataclasses import dataclass, field

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Message, Record
from trackside.contracts.streams.parking import RecordSkipped
from trackside.contracts.tasks.tasks import TaskStopRequested
from trackside.domain.checks.findings import Findings, RecordPosition, position_of
from trackside.domain.outcome import Outcome


@dataclass(slots=True)
class _OpenDecision:
    """A decision with more events to come; `position` is that of its first one."""

    name: bytes
    count: int
    applied: bool | None
    """None: its stream is parked, and it is not known whether it counts."""
    position: RecordPosition
    next_index: int = 1


@dataclass(slots=True)
class DecisionChecks:
    """Checks records, in the order of each partition, also those that were not applied."""

    findings: Findings
    _open: dict[int, _OpenDecision] = field(default_factory=dict)

    def take(self, record: Record, outcome: Outcome) -> None:
        """Checks the next record of a partition."""
        name, index = record.envelope.decision_id, record.envelope.index
        decision = self._open.get(record.partition)
        applied = None if outcome is Outcome.PARKED else outcome is Outcome.APPLIED
        if decision is not None and (decision.name, decision.next_index) == (name, index):
            self._continue(decision, record, applied)
            return
        self._incomplete(self._open.pop(record.partition, None))
        if not name:
            return
        if index == 0:
            count = record.envelope.count
            self.findings.checked["INV-9"] += bool(applied)
            if count > 1:
                self._open[record.partition] = _OpenDecision(name, count, applied, position_of(record))
        elif applied:
            message = f"event {index} of a decision is applied, and those before it are missing"
            self.findings.add("INV-9", record, message)

    def finish(self) -> None:
        """Adds decisions that are incomplete at the end of the log: appends are atomic."""
        for decision in self._open.values():
            self._incomplete(decision)

    def _continue(self, decision: _OpenDecision, record: Record, applied: bool | None) -> None:
        kind = type(record.message).__name__
        if decision.applied and applied is False and not _may_be_too_late(type(record.message)):
            message = f"{kind}, event {decision.next_index} of a decision that is applied, is not"
            self.findings.add("INV-9", record, message)
        elif applied and decision.applied is False:
            message = f"{kind}, event {decision.next_index} of a decision, is applied though the first is not"
            self.findings.add("INV-9", record, message)
        decision.next_index += 1
        if decision.next_index == decision.count:
            del self._open[record.partition]

    def _incomplete(self, decision: _OpenDecision | None) -> None:
        if decision is not None and decision.applied:
            message = f"of the {decision.count} events of this decision only {decision.next_index} are there"
            self.findings.add("INV-9", decision.position, message)


def _may_be_too_late(kind: type[Message]) -> bool:
    """Returns whether an event alone may have no effect in its decision: what it stops may have ended."""
    aggregate = AGGREGATES.by_event.get(kind)
    return (
        kind in (TaskStopRequested, RecordSkipped) if aggregate is None else kind in aggregate.may_be_too_late
    )
