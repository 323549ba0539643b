"""INV-10 of summary jobs: each byte of a file is indexed once, in order; nothing more of a deleted job is."""

from collections.abc import Mapping

from trackside.aggregates.summary.messages import (
    SummaryFileIndexed,
    SummaryFileQuarantined,
    SummaryFileReplaced,
    SummaryJobDeleted,
    SummaryJobRestored,
)
from trackside.contracts.message import Message, Record
from trackside.domain.findings import Findings
from trackside.domain.invariants import AggregateInvariants, CheckedTask


class SummaryInvariants(AggregateInvariants):
    """Keeps up to where each file is indexed."""

    def __init__(self, record: Record, tasks: Mapping[str, CheckedTask], findings: Findings) -> None:
        """Begins with the record of SummaryJobFound."""
        super().__init__(record, tasks, findings)
        self.ends: dict[str, int] = {}
        self.deleted = self.purged = False

    def take(self, event: Message, record: Record) -> None:
        """Checks an event of the job after its first one."""
        match event:
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
                self.deleted, self.purged = True, event.purge
            case SummaryJobRestored():
                if not self.deleted:
                    self.findings.illegal(record, "the job is not deleted")
                if self.purged:
                    self.ends.clear()
                self.deleted = self.purged = False
