"""INV-10 of datasets: what is observed follows what was, and is reported by the one watcher that there is."""

from collections.abc import Iterable, Mapping

from trackside.aggregates.dataset.messages import (
    WATCH,
    DatasetChanged,
    DatasetDeleted,
    DatasetObserved,
    DatasetPaused,
    DatasetRefused,
    DatasetRegistered,
    DatasetReport,
    DatasetResumed,
    DatasetTruncated,
)
from trackside.contracts.message import Message, Record
from trackside.contracts.parts import number_of
from trackside.contracts.resources import Needs
from trackside.contracts.tasks import TaskSubmitted
from trackside.domain.findings import Findings
from trackside.domain.invariants import AggregateInvariants, CheckedTask, check_needs


class DatasetInvariants(AggregateInvariants):
    """Keeps how far the dataset was observed, whether it is active, and which watcher runs."""

    def __init__(self, record: Record, tasks: Mapping[str, CheckedTask], findings: Findings) -> None:
        """Begins with the record of DatasetRegistered."""
        super().__init__(record, tasks, findings)
        self.end = (0, 0)
        self.active, self.deleted = True, False
        self.watchers, self.dismissed = 0, 0
        self.watching = ""

    def take(self, event: Message, record: Record) -> None:
        """Checks an event of the dataset after its first one."""
        if self.deleted:
            self.findings.illegal(record, "the dataset is deleted")
        if isinstance(event, DatasetReport):
            self._check_report(event, record)
        match event:
            case DatasetObserved():
                self._observed(event, record)
            case DatasetTruncated() | DatasetChanged() | DatasetRefused() | DatasetPaused():
                if not self.active:
                    self.findings.illegal(record, "the dataset is not active")
                self._dismiss()
            case DatasetResumed():
                if self.active:
                    self.findings.illegal(record, "the dataset is active")
                self.active = True
            case DatasetDeleted():
                self.deleted = True
                self._dismiss()

    def facts_of(self, event: Message) -> Iterable[tuple[str, object]]:
        """Returns the digest up to which it was observed."""
        if isinstance(event, DatasetRegistered):
            yield "its place", (event.dataset.url, event.dataset.format)
        elif isinstance(event, DatasetObserved):
            yield f"sample {event.end}", (event.end_byte, event.sha256, event.metrics)

    def unfinished(self) -> str:
        """Returns that a watcher of a deleted dataset runs."""
        waits = self.deleted and self.watching
        return "the dataset is deleted, and its watcher has not ended" if waits else ""

    def task_submitted(self, event: TaskSubmitted, record: Record) -> None:
        """Checks that a task is the next watcher, and that the one before has ended."""
        if not self.active or self.watching:
            why = f"{self.watching} has not ended" if self.watching else "the dataset is not active"
            self.findings.illegal(record, f"watcher {event.task_id} is submitted while {why}")
        check_needs(event, Needs(), record, self.findings)
        self.watchers += 1
        if number_of(event.part, WATCH) != self.watchers:
            message = f"watcher {event.task_id} is submitted, the next one is number {self.watchers}"
            self.findings.illegal(record, message)
        self.watching = event.task_id

    def task_ended(self, task_id: str) -> None:
        """Takes in that a watcher has ended."""
        if task_id == self.watching:
            self.watching = ""

    def _dismiss(self) -> None:
        self.active, self.dismissed = False, self.watchers

    def _check_report(self, event: DatasetReport, record: Record) -> None:
        if event.watcher != self.watchers or not self.watching or event.watcher <= self.dismissed:
            message = f"watcher {event.watcher} reports, which does not watch the dataset"
            self.findings.illegal(record, message)

    def _observed(self, event: DatasetObserved, record: Record) -> None:
        if (event.begin, event.begin_byte) != self.end:
            lines, size = self.end
            begin = f"{event.begin} at byte {event.begin_byte}"
            message = f"samples are observed from {begin}, the next one is {lines} at byte {size}"
            self.findings.illegal(record, message)
        if event.end <= event.begin or event.end_byte <= event.begin_byte:
            self.findings.illegal(record, "no sample is observed")
        self.end = (event.end, event.end_byte)
