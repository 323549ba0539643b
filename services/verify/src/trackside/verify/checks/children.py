"""INV-19: a child is requested once, ends once, and has ended when its parent is over."""

from dataclasses import dataclass, field

from trackside.contracts.envelope.message import Record
from trackside.contracts.streams.children import ChildRequested, ChildStopRequested
from trackside.domain.checks.findings import Findings
from trackside.domain.checks.invariants import AggregateInvariants
from trackside.domain.streams.child import ChildEvent


@dataclass(slots=True)
class ChildHistory:
    """The children of one stream: those that are open, and those that have ended."""

    open: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)


def check_child_event(
    history: ChildHistory, root: AggregateInvariants, event: ChildEvent, record: Record, findings: Findings
) -> None:
    """Checks an event about a child, and passes it on to the checks of its parent's aggregate."""
    findings.checked["INV-19"] += 1
    child_id, name = event.child_id, type(event).__name__
    if isinstance(event, ChildRequested):
        if child_id in history.open or child_id in history.ended:
            findings.add("INV-19", record, f"child {child_id} is requested twice")
            return
        history.open.add(child_id)
        root.child_requested(child_id, record)
    elif child_id not in history.open:
        how = "has ended" if child_id in history.ended else "was never requested"
        findings.add("INV-19", record, f"{name} of child {child_id}, which {how}")
    elif not isinstance(event, ChildStopRequested):
        history.open.discard(child_id)
        history.ended.add(child_id)
        root.child_ended(child_id, event.status)


def check_none_open(history: ChildHistory, record: Record, findings: Findings) -> None:
    """Checks that a stream that is over has no open child."""
    for child_id in sorted(history.open):
        findings.add("INV-19", record, f"the stream is over, its child {child_id} has not ended")
