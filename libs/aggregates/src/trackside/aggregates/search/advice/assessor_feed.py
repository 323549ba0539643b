"""What an assessor reads of a search: reports, new attempts and ends of its trials, in the log's order."""

from trackside.aggregates.search.messages import TRIAL, TrialEnded
from trackside.aggregates.search.state import RESUMED, FeedRow, Search
from trackside.contracts.envelope.message import Message
from trackside.contracts.envelope.parts import number_of
from trackside.contracts.tasks.artifacts import TaskResumed
from trackside.contracts.tasks.tasks import MetricReported
from trackside.domain.tasks.task import Task


def row_of_task(search: Search, task: Task, before: int, event: Message) -> list[FeedRow]:
    """Returns the row of an event after which a task has one report more than `before`, or none any more."""
    trial = number_of(task.part, TRIAL)
    if search.spec.assessor is None or trial is None:
        return []
    if isinstance(event, TaskResumed):
        return [(trial, RESUMED, event.step)]
    if len(task.reports) < before:
        return [(trial, None, None)]
    assert isinstance(event, MetricReported)
    return [(trial, event.step, event.non_finite or event.value)]


def row_of_end(search: Search, event: TrialEnded) -> list[FeedRow]:
    """Returns the row of a trial's end."""
    return [] if search.spec.assessor is None else [(event.trial, event.status.value, event.value)]
