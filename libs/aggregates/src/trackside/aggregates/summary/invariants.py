"""INV-10 of summary jobs: each byte of a file is indexed once, in order; nothing more of a deleted job is."""

from collections.abc import Mapping
from typing import Any, cast

from trackside.aggregates.summary.messages import (
    AnnotateSummaryJob,
    DeleteSummaryJob,
    RegisterSummaryDirectory,
    RestoreSummaryJob,
    SummaryFileIndexed,
    SummaryFileQuarantined,
    SummaryFileReplaced,
    SummaryJobAnnotated,
    SummaryJobDeleted,
    SummaryJobFound,
    SummaryJobRestored,
)
from trackside.contracts.envelope.message import Message, Record
from trackside.domain.checks.findings import Findings
from trackside.domain.checks.invariants import AggregateInvariants, CheckedTask


class SummaryInvariants(AggregateInvariants):
    """Keeps up to where each file is indexed."""

    def __init__(self, record: Record, tasks: Mapping[str, CheckedTask], findings: Findings) -> None:
        """Begins with the record of SummaryJobFound."""
        super().__init__(record, tasks, findings)
        self.ends: dict[str, int] = {}
        self.deleted = self.purged = self.overtakes = False
        self.reported = 0
        self.shown: tuple[int | None, str] = (None, "")

    def begun_by(self, command: Any, record: Record) -> None:
        """Checks that the job is of the directory that its command names."""
        job = cast(SummaryJobFound, record.message).job
        if isinstance(command, RegisterSummaryDirectory):
            self.findings.compare(record, "the path", (job.base, job.path), (command.base, command.path))

    def ignored(self, event: Message) -> str:
        """Returns that a report without effect is a later one, or the next one of a job that is as it was."""
        number = getattr(event, "sequence", 0)
        next_one = self.reported + 1
        if number > next_one or (number == next_one and not self.overtakes):
            return f"{self.reported} reports came before"
        return ""

    def accepted_alone(self, command: Any) -> str:
        """Returns that the job is not deleted, or is."""
        if isinstance(command, DeleteSummaryJob) and not self.deleted:
            return "the job is not deleted"
        return "the job is deleted" if isinstance(command, RestoreSummaryJob) and self.deleted else ""

    def take(self, event: Message, record: Record) -> None:
        """Checks an event of the job after its first one."""
        number = getattr(event, "sequence", None)
        if number is not None:
            self.reported += 1
            self.overtakes = False
            if number != self.reported:
                self.findings.illegal(record, f"report {number} comes after {self.reported - 1} reports")
        match event:
            case SummaryJobAnnotated():
                command = self.command
                if isinstance(command, AnnotateSummaryJob):
                    tag = self.shown[0] if command.tag is None else command.tag
                    remark = self.shown[1] if command.remark is None else command.remark
                    self.findings.compare(record, "the remark", (event.tag, event.remark), (tag, remark))
                self.shown = event.tag, event.remark
            case SummaryFileIndexed():
                expected = self.ends.get(event.file, 0)
                if self.deleted:
                    self.findings.illegal(record, "the job is deleted")
                if event.begin != expected:
                    message = f"{event.file} is indexed from byte {event.begin}, the next one is {expected}"
                    self.findings.illegal(record, message)
                self.ends[event.file] = event.end
            case SummaryFileReplaced():
                self.ends[event.file] = 0
            case SummaryFileQuarantined():
                if self.ends.get(event.file) != event.offset:
                    self.findings.illegal(record, f"{event.file} is not indexed up to byte {event.offset}")
            case SummaryJobDeleted():
                self.overtakes = True
                self.deleted, self.purged = True, event.purge
            case SummaryJobRestored():
                if not self.deleted:
                    self.findings.illegal(record, "the job is not deleted")
                if self.purged:
                    self.ends.clear()
                self.deleted = self.purged = False
                self.overtakes = True
