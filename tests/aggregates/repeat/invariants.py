"""INV-12 of repeats: the order of the runs, and how many are open at once."""

from collections.abc import Mapping
from typing import cast

from tests.aggregates.repeat.messages import RepeatEnded, RepeatExtended, RepeatStarted
from trackside.contracts.envelope.message import Message, Record
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.domain.checks.findings import Findings
from trackside.domain.checks.invariants import AggregateInvariants, CheckedTask


class RepeatInvariants(AggregateInvariants):
    """Counts the runs that were submitted, and keeps those that are open."""

    def __init__(self, record: Record, tasks: Mapping[str, CheckedTask], findings: Findings) -> None:
        super().__init__(record, tasks, findings)
        self.spec = cast(RepeatStarted, record.message).repeat
        self.times = self.spec.times
        self.submitted = 0
        self.open: set[str] = set()

    def take(self, event: Message, record: Record) -> None:
        if isinstance(event, RepeatExtended):
            self.times = event.times
        elif isinstance(event, RepeatEnded) and self.open:
            self.findings.illegal(record, f"{len(self.open)} runs go on")

    def task_submitted(self, event: TaskSubmitted, record: Record) -> None:
        self.findings.checked["INV-12"] += 1
        if event.task_id != f"{self.stream_id}.{self.submitted}" or self.submitted >= self.times:
            self.findings.add("INV-12", record, f"task {event.task_id} is not the next run")
        self.submitted += 1
        self.open.add(event.task_id)
        self.findings.check_concurrency(len(self.open), self.spec.at_once, "runs", record)

    def task_ended(self, task_id: str) -> None:
        self.open.discard(task_id)
