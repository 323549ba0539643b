"""INV-18: the cause that an event names is an applied event that lies before it. An event may name none."""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field

from trackside.contracts.message import Record
from trackside.domain.findings import Findings, RecordPosition, position_of
from trackside.domain.proposal import parse_cause

StreamEnds = Callable[[str], float]
"""Returns the offset after the last record read of the partition of a stream."""


def _nothing_follows(stream: str) -> float:
    """Returns the end of a partition of which everything was read."""
    return float("inf")


@dataclass(slots=True)
class CauseChecks:
    """Checks the applied events of one topic, in the order of each stream."""

    findings: Findings
    _applied: dict[str, "array[int]"] = field(default_factory=dict)
    _elsewhere: list[tuple[str, int, RecordPosition]] = field(default_factory=list)

    def take(self, record: Record) -> None:
        """Checks the cause of one applied event."""
        stream, cause = record.envelope.stream, record.envelope.causation_id
        applied = self._applied.get(stream)
        if applied is None:
            applied = self._applied[stream] = array("Q")
        if cause:
            self.findings.checked["INV-18"] += 1
            self._check(stream, cause, applied, record)
        if applied and record.offset < applied[-1]:  # it was held while its stream was parked
            applied.insert(bisect_left(applied, record.offset), record.offset)
        else:
            applied.append(record.offset)

    def finish(self, others: Container[str] = (), ends: StreamEnds = _nothing_follows) -> None:
        """Reports causes in streams that neither this topic has nor `others`, and those not applied there.

        A cause at or after the end to which the partition of its stream was read is left open.
        """
        for stream, offset, place in self._elsewhere:
            applied = self._applied.get(stream, ())
            if stream in others or _has(applied, offset):
                continue
            message = f"its cause, offset {offset} of stream {stream}, is not an applied event"
            if not applied:
                message = f"its cause is an event of stream {stream}, which is not there"
            if offset >= ends(stream):
                self.findings.leave_open("INV-18", place, message)
            else:
                self.findings.add("INV-18", place, message)

    def _check(self, stream: str, cause: str, applied: "array[int]", record: Record) -> None:
        found = parse_cause(cause)
        if found is None:
            self.findings.add("INV-18", record, f"its cause {cause!r} names no event")
        elif found[0] != stream:
            self._elsewhere.append((*found, position_of(record)))
        elif found[1] >= record.offset:
            self.findings.add("INV-18", record, f"its cause, offset {found[1]}, is not before it")
        elif not _has(applied, found[1]):
            message = f"its cause, offset {found[1]}, is not an applied event of its stream"
            self.findings.add("INV-18", record, message)


def _has(applied: Sequence[int], offset: int) -> bool:
    at = bisect_left(applied, offset)
    return at < len(applied) and applied[at] == offset
