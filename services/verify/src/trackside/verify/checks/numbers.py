"""INV-7: each number of a worker's incarnation belongs to one record."""

from array import array
from dataclasses import dataclass, field
from zlib import crc32

from trackside.contracts.envelope.message import Record
from trackside.domain.checks.findings import Findings

MAX_GAP = 100_000
"""How far a number may be beyond the highest so far to be kept in the array: others are kept one by one."""


@dataclass(slots=True)
class UsedNumbers:
    """The numbers of one incarnation that were read, each with a checksum of its record's id; 0: not read."""

    checksums: "array[int]" = field(default_factory=lambda: array("I"))
    beyond: dict[int, int] = field(default_factory=dict)

    def use(self, number: int, checksum: int) -> int:
        """Notes who uses a number, and returns who used it first."""
        size = len(self.checksums)
        if number >= size + MAX_GAP:
            return self.beyond.setdefault(number, checksum)
        if number >= size:
            self.checksums.extend([0] * (number + 1 - size))
        first = self.checksums[number] or self.beyond.get(number, checksum)
        self.checksums[number] = first
        return first


@dataclass(slots=True)
class NumberChecks:
    """Checks the numbers of workers' records, applied or not, in any order. A copy has the same id."""

    findings: Findings
    _used: dict[str, UsedNumbers] = field(default_factory=dict)

    def take(self, record: Record) -> None:
        """Checks the number of one record, if it has one."""
        number = record.envelope.sequence
        incarnation = getattr(record.message, "incarnation", "") if record.envelope.role == "worker" else ""
        if not number or not incarnation:
            return
        used = self._used.get(incarnation)
        if used is None:
            used = self._used[incarnation] = UsedNumbers()
        checksum = crc32(record.envelope.id.encode()) or 1
        if used.use(number, checksum) != checksum:
            message = f"number {number} of incarnation {incarnation} is that of another record, too"
            self.findings.add("INV-7", record, message)
