"""INV-12 and INV-10 of batches: limits, the order of groups and tasks, and legal transitions."""

from collections.abc import Mapping
from typing import cast

from trackside.aggregates.batch.messages import (
    GROUP,
    BatchEnded,
    BatchStarted,
    BatchStopRequested,
    GroupEnded,
    task_name,
)
from trackside.contracts.ids import batch_task_id
from trackside.contracts.message import Message, Record
from trackside.contracts.parts import number_of
from trackside.contracts.tasks import TaskSubmitted
from trackside.domain.findings import Findings
from trackside.domain.invariants import AggregateInvariants, CheckedTask


class BatchInvariants(AggregateInvariants):
    """Keeps which group runs, the tasks of it that were submitted, and those not ended."""

    def __init__(self, record: Record, tasks: Mapping[str, CheckedTask], findings: Findings) -> None:
        """Begins with the record of BatchStarted."""
        super().__init__(record, tasks, findings)
        self.spec = cast(BatchStarted, record.message).batch
        self.group = 0
        self.submitted = 0
        self.open: set[str] = set()
        self.stopping = False

    def take(self, event: Message, record: Record) -> None:
        """Checks an event of the batch after its first one."""
        match event:
            case GroupEnded():
                self._group_ended(event, record)
            case BatchStopRequested():
                if self.stopping:
                    self.findings.illegal(record, "the batch is stopping already")
                self.stopping = True
            case BatchEnded():
                if self.group < len(self.spec.groups) and (self.open or not self.stopping):
                    groups, running = len(self.spec.groups), len(self.open)
                    message = f"group {self.group} of {groups} runs, {running} tasks go on"
                    self.findings.illegal(record, message)

    def task_submitted(self, event: TaskSubmitted, record: Record) -> None:
        """Checks that a task is the next one of the group that runs, and that there is room for it."""
        self.findings.checked["INV-12"] += 1
        if self.stopping:
            self.findings.illegal(record, "the batch is being stopped")
        group = number_of(event.part, GROUP)
        if group != self.group or self.submitted >= self._group_size:
            message = f"task {event.task_id} of group {group} is submitted while group {self.group} runs"
            self.findings.add("INV-12", record, message)
        else:
            name = task_name(self.spec.groups[self.group].tasks[self.submitted], self.submitted)
            if event.task_id != batch_task_id(self.stream_id, self.group, name):
                message = f"task {event.task_id} is submitted, the next one of its group is {name}"
                self.findings.add("INV-12", record, message)
        self.submitted += 1
        self.open.add(event.task_id)
        self.findings.check_concurrency(len(self.open), self.spec.concurrency, "tasks", record)

    def task_ended(self, task_id: str) -> None:
        """Takes in that a task has ended."""
        self.open.discard(task_id)

    def _group_ended(self, event: GroupEnded, record: Record) -> None:
        if event.group != self.group:
            message = f"group {event.group} ends while group {self.group} runs"
            self.findings.add("INV-12", record, message)
        elif self.open or self.submitted < self._group_size:
            message = (
                f"group {event.group} ends with {len(self.open)} tasks that go on and "
                f"{self._group_size - self.submitted} that were not submitted"
            )
            self.findings.add("INV-12", record, message)
        self.group, self.submitted = event.group + 1, 0
        self.open.clear()

    @property
    def _group_size(self) -> int:
        """The number of tasks of the running group; 0 after the last one."""
        return len(self.spec.groups[self.group].tasks) if self.group < len(self.spec.groups) else 0
