"""INV-26 of ends of attempts, and of reports and artifacts: the fields of one event agree with each other."""

from trackside.contracts.envelope.message import Record
from trackside.contracts.tasks.artifacts import CHECKPOINT, STORED, ArtifactSaved
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded, MetricReported
from trackside.domain.checks.findings import Findings
from trackside.verify.checks.tasks.task_history import TaskHistory

WITH_LIMIT = frozenset({AttemptEnd.OOM_HOST})
WITHOUT_ERROR = frozenset({AttemptEnd.FINISHED})


def check_end(
    task: TaskHistory, event: AttemptEnded, record: Record, findings: Findings, *, numbered: bool
) -> None:
    """Checks what an end says of itself; its worker numbers its events, if `numbered`.

    A worker that ends at its start what an earlier incarnation had has no number for that. It recovers the
    end, except of a placement that was adopted before: that one it adopts first.
    """
    if event.reports is not None and len(task.reported) < event.reports:
        message = f"its worker has reported {event.reports} values, and {len(task.reported)} are there"
        findings.add("INV-25", record, message)
    if event.reports is not None and task.out_of_order:
        findings.add("INV-25", record, "its worker has reported steps out of their order")
    if record.envelope.role == "worker" and record.envelope.sequence:
        task.ended_by = (event.attempt, event.placement, event.incarnation)
    if event.end is not AttemptEnd.FINISHED and event.result is not None:
        findings.differs(record, "a result", event.result, None)
    if event.end in WITHOUT_ERROR and event.error is not None:
        findings.differs(record, "an error", event.error.type, None)
    if event.end in WITHOUT_ERROR and event.exit_code:
        findings.differs(record, "the exit code", event.exit_code, 0)
    if event.end not in WITH_LIMIT:
        findings.compare(record, "the limit", (event.limit, event.limit_bytes), (None, 0))
    if numbered and record.envelope.role == "worker":
        recovered = record.envelope.sequence == 0 and not task.adopted
        findings.compare(record, "recovered", event.recovered, recovered)


def check_report(task: TaskHistory, event: MetricReported, record: Record, findings: Findings) -> None:
    """Checks the step of a FINAL value, which follows the last one, and that no step has two values."""
    if event.non_finite is not None and event.value is not None:
        findings.differs(record, "the value", event.value, event.non_finite)
    if event.kind == "FINAL" and task.last_step is not None:
        findings.compare(record, "the step", event.step, task.last_step + 1)
    elif event.kind == "PERIODICAL" and task.has_final:
        findings.differs(record, "the kind", event.kind, "FINAL, after which none follows")


def check_saved(event: ArtifactSaved, record: Record, findings: Findings) -> None:
    """Checks that the URI of an artifact in the store has its digest, and that a checkpoint has a step."""
    if event.uri.startswith(STORED):
        findings.compare(record, "the digest", event.sha256, event.uri.removeprefix(STORED))
    if (event.kind == CHECKPOINT) is (event.step is None):
        findings.differs(record, "the step", event.step, "a number, if it is a checkpoint")
