"""INV-10 of datasets: what is observed follows what was, and is reported by the one watcher that there is."""

from collections.abc import Iterable, Mapping
from typing import Any

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
from trackside.contracts.envelope.message import Json, Message, Record
from trackside.contracts.envelope.parts import number_of
from trackside.contracts.tasks.resources import Needs
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.domain.checks.findings import Findings
from trackside.domain.checks.invariants import KEPT_DETAILS, AggregateInvariants, CheckedTask, check_needs


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
        watcher = self.tasks.get(self.watching)
        said, told = _said(event), [] if watcher is None else [_told(event, each) for each in watcher.details]
        # With more than are kept, it may be of an older one.
        if said not in (None, "", *told) and 0 < len(told) < KEPT_DETAILS:
            self.findings.differs(record, "a report", said, told[-1])
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


def _said(event: DatasetReport) -> Any:
    """Returns what an event says that its watcher has told."""
    match event:
        case DatasetObserved():
            return event.end, event.end_byte, event.sha256
        case DatasetTruncated():
            return event.size_bytes
        case DatasetChanged():
            return event.sha256
        case DatasetRefused():
            known = event.code != "unreadable_report"
            return (event.code, event.line, event.message) if known else None


def _told(event: DatasetReport, detail: Json) -> Any:
    """Returns the same of what a watcher has told; what it can't have told is left out of events."""
    end, problem = detail.get("end"), detail.get("problem")
    end, problem = (each if isinstance(each, dict) else {} for each in (end, problem))
    match event:
        case DatasetObserved():
            return end.get("lines"), end.get("size"), end.get("sha256")
        case DatasetTruncated():
            return problem.get("size")
        case DatasetChanged():
            return problem.get("sha256", "")
        case DatasetRefused():
            line, message = problem.get("line"), str(problem.get("message", ""))
            return problem.get("code"), line if type(line) is int and line >= 0 else None, message[:1_000]
