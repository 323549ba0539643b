"""What became of an event when it was folded."""

from enum import Enum

from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.standing import Standing


class Outcome(Enum):
    """Applied: it counts. Duplicate: its identity was there. Overtaken: the state doesn't permit it.

    Parked: its stream waits for a newer release, or for an operator, and so does the event.
    """

    APPLIED = "applied"
    DUPLICATE = "duplicate"
    OVERTAKEN = "overtaken"
    PARKED = "parked"


def standing_of(record: Record, outcome: Outcome) -> Standing:
    """Returns the standing of a record that was just folded into its stream, with this outcome."""
    if outcome is Outcome.APPLIED:
        return Standing.APPLIED
    if record.distrust:
        return Standing.FORGED
    if record.envelope.index < 0 or record.envelope.role not in record.message.written_by:
        return Standing.VOID
    return Standing(outcome.value)


def no_effect(standing: Standing | None, distrust: str = "") -> str:
    """Returns why a record had no effect: `overtaken`, `forged: unsigned`; empty for one that had one."""
    if standing is None or standing is Standing.APPLIED:
        return ""
    return f"{standing.value}: {distrust}" if distrust else standing.value
