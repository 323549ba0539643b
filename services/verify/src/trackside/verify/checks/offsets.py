"""INV-28: each offset of the events, and of the fleet, has a record.

These topics keep all that was ever written, and only our services write there, without transactions: so their
offsets follow each other. Of a foreign transaction the marker, and what it has aborted, have no record to
read; nothing tells such an offset from one whose record is lost.
"""

from dataclasses import dataclass, field

from trackside.domain.checks.findings import Findings, RecordPosition


@dataclass(slots=True)
class OffsetChecks:
    """Checks the offsets of topics that keep everything, in the order of each partition."""

    findings: Findings
    _next: dict[tuple[str, int], int] = field(default_factory=dict)

    def take(self, topic: str, partition: int, offset: int) -> None:
        """Takes the offset of the next record of a partition."""
        self.findings.checked["INV-28"] += 1
        expected = self._next.get((topic, partition), 0)
        if offset > expected:
            missing = f"{expected}" if offset == expected + 1 else f"{expected} to {offset - 1}"
            message = f"no record at offset {missing}: it is lost, or of a foreign transaction"
            self.findings.add("INV-28", RecordPosition(topic, partition, expected, ""), message)
        self._next[topic, partition] = offset + 1
