"""What a task reports: which values count, of the attempt and the training that run now."""

from trackside.contracts.tasks import MetricReported
from trackside.domain.outcome import Outcome
from trackside.domain.task import Task, TaskState


def reported(task: Task, event: MetricReported) -> Outcome:
    """Folds a report: the first FINAL value counts, and steps that rise."""
    attempt = task.attempt
    said = (event.attempt, event.placement, event.interrupts, event.requests)
    current = said == (attempt.number, attempt.placement, attempt.interrupted, task.taken)
    if task.state is not TaskState.ACTIVE or task.idle or not current:
        return Outcome.OVERTAKEN
    if event.kind == "FINAL":
        if task.has_final:
            return Outcome.DUPLICATE
        task.has_final = True
        task.final = event.value
        _note_beside(task, event)
        return Outcome.APPLIED
    if task.reports and event.step <= task.reports[-1][0]:
        return Outcome.DUPLICATE
    task.reports.append((event.step, event.value))
    if not task.has_final:
        _note_beside(task, event)
    return Outcome.APPLIED


def _note_beside(task: Task, event: MetricReported) -> None:
    task.non_finite = event.non_finite or ""
    task.others = event.others


def forget(task: Task) -> None:
    """Forgets what an attempt or a training that is over has reported."""
    task.reports.clear()
    task.has_final, task.final = False, None
    task.non_finite, task.others = "", {}
