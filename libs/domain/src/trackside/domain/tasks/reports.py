"""What a task reports: which values count, of the attempt and the training that run now."""

from typing import Literal

from trackside.contracts.tasks.tasks import MetricReported
from trackside.domain.outcome import Outcome
from trackside.domain.tasks.task import Task, TaskState

IgnoredReason = Literal["late", "stale", "repeat"]


def why_ignored(task: Task, event: MetricReported) -> IgnoredReason | None:
    """Returns why a report has no effect on its task; None if it counts.

    `late`: the task is over, or the trial that it had, or its steps up to its limit; `stale`: the report is
    of an attempt, a placement, a trial or a training that is over, or the task doesn't run; `repeat`: a FINAL
    value after the first, or a step that doesn't rise, or is below the one that its training resumed at.
    """
    if task.state is not TaskState.ACTIVE or task.idle:
        if task.idle or task.state is TaskState.ENDED:
            return "late"
        return "stale"
    attempt = task.attempt
    if (
        event.attempt != attempt.number
        or event.placement != attempt.placement
        or event.interrupts != attempt.interrupted
        or event.requests != task.taken
        # Its next trial is assigned, and its process doesn't have it yet: this is of the one before.
        or (task.answered > task.taken and not task.withheld)
    ):
        return "stale"
    if event.kind == "FINAL":
        if task.has_final:
            return "repeat"
    elif event.step <= _last_step(task):
        return "repeat"
    elif task.step_limit is not None and event.step >= task.step_limit:
        return "late"
    return None


def _last_step(task: Task) -> int:
    """Returns the step after which reports count: the last one, or that before the step resumed at."""
    if task.reports:
        return task.reports[-1][0]
    resumed = task.attempt.resumed
    return -1 if resumed is None else resumed.step - 1


def reported(task: Task, event: MetricReported) -> Outcome:
    """Folds a report: the first FINAL value counts, and steps that rise."""
    ignored = why_ignored(task, event)
    if ignored is not None:
        return Outcome.DUPLICATE if ignored == "repeat" else Outcome.OVERTAKEN
    if task.earlier and event.step >= task.earlier[-1][0]:
        task.earlier.clear()  # a training that resumes later has these from this one
    if event.kind == "FINAL":
        task.has_final = True
        task.final = event.value
        _note_beside(task, event)
        return Outcome.APPLIED
    task.reports.append((event.step, event.value))
    if not task.has_final:
        _note_beside(task, event)
    return Outcome.APPLIED


def _note_beside(task: Task, event: MetricReported) -> None:
    task.non_finite = event.non_finite or ""
    task.others = event.others


def forget(task: Task) -> None:
    """Forgets what an attempt or a training that is over has reported, unless the next one resumes."""
    if task.checkpoints and task.needs.resume:
        if task.reports:
            # A training that has not come as far as one before may be followed by one that resumes there.
            later = [each for each in task.earlier if each[0] > task.reports[-1][0]]
            if not later:
                # Of a FINAL value nothing stays: a training that resumes after it says it again.
                task.earlier_beside = None if task.has_final else (task.non_finite, task.others)
            task.earlier = task.reports + later
        task.reports = []
    else:
        task.reports.clear()
    task.has_final, task.final = False, None
    task.non_finite, task.others = "", {}
