"""INV-7 and INV-18 of events of workers: they are by the worker that has the placement, and rest on it."""

from trackside.contracts.envelope.message import Record
from trackside.contracts.tasks.tasks import MetricReported
from trackside.domain.checks.findings import Findings
from trackside.domain.proposal import parse_cause
from trackside.verify.checks.tasks.incarnations import IncarnationChecks
from trackside.verify.checks.tasks.task_history import TaskHistory


def check_worker(
    task: TaskHistory, record: Record, incarnations: IncarnationChecks, findings: Findings
) -> None:
    """Checks who has written an event of the current placement, and that its cause is not older than that."""
    if record.envelope.role != "worker":
        return
    incarnations.check_writer(task.incarnation, record)
    cause = parse_cause(record.envelope.causation_id)
    if cause is not None and cause[1] < task.assigned_at:
        message = f"its cause, offset {cause[1]}, is older than its placement, assigned at {task.assigned_at}"
        findings.add("INV-18", record, message)


def check_repeated(task: TaskHistory, event: MetricReported, record: Record, findings: Findings) -> None:
    """Checks a report without effect: of two FINAL values one is not by its worker."""
    training = (event.attempt, event.placement, event.interrupts, event.requests)
    of_task = (task.attempt, task.placement, task.interrupted, task.taken)
    if event.kind == "PERIODICAL" and training == of_task and event.step == task.last_step:
        said = task.said
        if said is not None and said.step == event.step and said.value != event.value:
            values = f"{said.value} and {event.value}"
            message = f"task {task.task_id} has reported two values of step {event.step}, {values}"
            findings.add("INV-7", record, message)
    repeated = event.kind == "FINAL" and task.has_final and training == of_task
    if repeated and event.value != task.final:
        message = (
            f"task {task.task_id} has reported another FINAL value before, {task.final}, and {event.value}"
        )
        findings.add("INV-7", record, message)
