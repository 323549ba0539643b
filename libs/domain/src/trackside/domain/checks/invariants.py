"""What `trackside verify-log` checks of an aggregate: its events read a second time, without the fold."""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, Protocol

from trackside.contracts.envelope.message import Json, Record
from trackside.contracts.envelope.parts import Part
from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.contracts.tasks.resources import Needs
from trackside.contracts.tasks.tasks import MetricReported, TaskContinued, TaskSubmitted
from trackside.domain.checks.findings import Findings
from trackside.domain.proposal import parse_cause

KEPT_DETAILS = 100
"""How many of the newest details of a service are kept, of each task."""


class CheckedTask(Protocol):
    """A task as the checks of tasks know it."""

    @property
    def part(self) -> Part | None:
        """What of its aggregate it is for, or was last if it is idle."""
        ...

    @property
    def checkpoints(self) -> Set[tuple[str, int]]:
        """The checkpoints that it has saved: digests and steps."""
        ...

    @property
    def has_ended(self) -> bool:
        """Returns whether it is over."""
        ...

    @property
    def succeeded(self) -> bool:
        """Returns whether it is over, and its last attempt has finished."""
        ...

    @property
    def attempt(self) -> int:
        """The number of its last attempt."""
        ...

    @property
    def submitted(self) -> TaskSubmitted | None:
        """How it was submitted."""
        ...

    @property
    def end(self) -> str:
        """How it has ended, in the words of AttemptEnd; empty before that."""
        ...

    @property
    def stop_reason(self) -> str:
        """Why it was asked to stop; empty if it was not."""
        ...

    @property
    def result(self) -> Json | None:
        """What its last attempt has returned."""
        ...

    @property
    def details(self) -> Sequence[Json]:
        """What its process has said last while it was ready, `KEPT_DETAILS` times at most."""
        ...

    @property
    def has_final(self) -> bool:
        """Returns whether it has reported the FINAL value of its part."""
        ...

    @property
    def said(self) -> MetricReported | None:
        """The last report of its part that counts; of an earlier training if `trainings` is above 1."""
        ...

    @property
    def reports(self) -> dict[int, MetricReported]:
        """All reports of its trial that counted, by their offsets."""
        ...

    @property
    def trainings(self) -> int:
        """How often it has begun to train."""
        ...

    @property
    def awaits_parameters(self) -> bool:
        """Returns whether its process waits for the answer to a request."""
        ...

    @property
    def may_go_on(self) -> bool:
        """Returns whether it is idle and may be given another trial."""
        ...

    def release(self) -> None:
        """Ends its trial: it is idle."""
        ...

    def assign_part(self, part: Part) -> None:
        """Assigns another part, such as a trial, to it."""
        ...


_OF_SPEC = (
    "retry",
    "queue",
    "priority",
    "preempt",
    "exclusive",
    "queue_timeout_s",
    "run_timeout_s",
    "credentials",
)


def check_needs(event: TaskSubmitted, needs: Needs, record: Record, findings: Findings) -> None:
    """Checks that a task which is no trial has these needs, apart from its resources and retries."""
    for name in _OF_SPEC:
        findings.compare(record, name, getattr(event.needs, name), getattr(needs, name))
    findings.compare(record, "estimates of", event.estimated_by, "task")
    findings.compare(record, "the checkpoint", event.checkpoint, None)
    findings.compare(record, "the step limit", event.step_limit, None)


class AggregateInvariants:
    """Checks the applied events of one stream that are its aggregate's, and which tasks it submits.

    It keeps a history of its own and never reads the folded state, so that a fold that applies too much is
    found. This one is of an aggregate without invariants of its own: it finds nothing.
    """

    def __init__(self, record: Record, tasks: Mapping[str, CheckedTask], findings: Findings) -> None:
        """Begins with the record of the event that begins the aggregate; `tasks` are those of its stream."""
        self.stream_id = record.envelope.stream
        self.tasks = tasks
        self.findings = findings
        self.command: Any = None
        """The command whose decision the event is in that is checked next; None: it is in none."""
        self.changes = 0
        """How many changes by people there were."""
        self.changed_at = -1
        """The offset of the last one."""

    def changed(self, event: Any, record: Record) -> None:
        """Checks that a change by people is the next one."""
        change = getattr(event, "change", None)
        if change is not None:
            self.changes, self.changed_at = self.changes + 1, record.offset
            if change != self.changes:
                self.findings.illegal(record, f"change {change} comes after {self.changes - 1} changes")

    def take(self, event: Any, record: Record) -> None:
        """Checks one of its later events."""

    def not_repeated(self, event: Any, record: Record) -> str:
        """Returns that a change without effect is a later one, or that there was none since its cause."""
        change, cause = getattr(event, "change", None), parse_cause(record.envelope.causation_id)
        if change is None or cause is None:
            return ""
        if change > self.changes + 1:
            return f"{self.changes} changes came before"
        known = change <= self.changes and self.changed_at <= cause[1]
        return "no change came since its cause" if known else ""

    def ignored(self, event: Any) -> str:
        """Returns why one of its events should have had an effect: it may be too late, and not too early."""
        return ""

    def begun_by(self, command: Any, record: Record) -> None:
        """Checks that its first event says what the command says."""

    def accepted_alone(self, command: Any) -> str:
        """Returns what a command that was accepted without an event should have changed."""
        return ""

    def unfinished(self) -> str:
        """Returns what is still to happen before it is over; empty if nothing is, or if it never ends."""
        return ""

    def facts_of(self, event: Any) -> Iterable[tuple[str, object]]:
        """Returns what one of its later events says that other streams repeat, by name."""
        return ()

    def repeated_by(self, event: Any) -> Iterable[tuple[str, str, object]]:
        """Returns what one of its later events repeats of other streams: their ids, names and values."""
        return ()

    def artifacts_of(self, event: Any) -> Iterable[ArtifactReference]:
        """Returns the artifacts of other streams that one of its later events names."""
        return ()

    def task_submitted(self, event: TaskSubmitted, record: Record) -> None:
        """Checks that a task may be submitted now; the checks of tasks have found it new."""

    def task_continued(self, event: TaskContinued, record: Record) -> None:
        """Checks that a task that asked may go on with this."""

    def child_requested(self, child_id: str, record: Record) -> None:
        """Checks that a child may be requested now; it is new."""

    def child_ended(self, child_id: str, status: str) -> None:
        """Takes in that a child has ended, with the status of its aggregate."""

    def task_ended(self, task_id: str) -> None:
        """Takes in that a task has ended."""
