"""Says of a folded record whether it had an effect, in the words of all lists of events. Pure."""

from trackside.contracts.message import Record
from trackside.contracts.standing import Standing
from trackside.domain.outcome import Outcome


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
    """Says why a record had no effect: `overtaken`, `forged: unsigned`; empty for one that had one."""
    if standing is None or standing is Standing.APPLIED:
        return ""
    return f"{standing.value}: {distrust}" if distrust else standing.value
