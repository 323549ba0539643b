"""What an assessor is told of a search: reports, new attempts and ends of its trials, in the log's order."""

from trackside.contracts.searches import TrialEnded
from trackside.contracts.tasks import MetricReported
from trackside.domain.search import Search
from trackside.domain.task import Task
from trackside.domain.task_events import TaskEvent

Row = tuple[int, int | str | None, float | str | None]
"""(trial, step, value): a report; (trial, None, None): a new attempt; (trial, status, value): an end.

A value that isn't a finite number is a name: nan, inf, -inf.
"""


def of_task(search: Search, task: Task, before: int, event: TaskEvent) -> list[Row]:
    """Gives the row of an event after which a task has one report more than `before`, or none any more."""
    if search.spec.assessor is None or task.trial is None:
        return []
    if len(task.reports) < before:
        return [(task.trial, None, None)]
    assert isinstance(event, MetricReported)
    return [(task.trial, event.step, event.non_finite or event.value)]


def of_end(search: Search, event: TrialEnded) -> list[Row]:
    """Gives the row of a trial's end."""
    return [] if search.spec.assessor is None else [(event.trial, event.status.value, event.value)]
