"""A task that carries out several trials one after another: its process asks for the next parameters.

The trial that it has ends with what was reported of it, and the next trial of the search goes on in the same
process. In between the task is idle: nothing is lost with its process then, so it isn't tried again.
"""

from typing import Any

from trackside.contracts.envelope.parts import Part
from trackside.contracts.tasks.tasks import (
    ParametersRequested,
    ParametersTaken,
    ParametersWithheld,
    TaskContinued,
)
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import Proposal
from trackside.domain.tasks import reports, task_artifacts
from trackside.domain.tasks.task import Task, TaskState

ReuseEvent = ParametersRequested | ParametersWithheld | TaskContinued | ParametersTaken


def evolve(task: Task, event: ReuseEvent) -> Outcome:
    """Folds a request, its answer, or that the process has the answer."""
    said, now = (event.attempt, event.placement), (task.attempt.number, task.attempt.placement)
    if task.state is not TaskState.ACTIVE or task.place is None or said != now:
        return Outcome.OVERTAKEN
    if isinstance(event, ParametersWithheld):
        return _withheld(task, event)
    if isinstance(event, TaskContinued):
        return _continued(task, event)
    if event.incarnation != task.place.incarnation:
        return Outcome.OVERTAKEN
    return _requested(task, event) if isinstance(event, ParametersRequested) else _taken(task, event)


def _requested(task: Task, event: ParametersRequested) -> Outcome:
    if event.request <= task.requested:
        return Outcome.DUPLICATE
    if task.requested != task.taken or event.request != task.requested + 1:
        return Outcome.OVERTAKEN
    task.requested = event.request
    return Outcome.APPLIED


def _withheld(task: Task, event: ParametersWithheld) -> Outcome:
    if event.request <= task.answered:
        return Outcome.DUPLICATE
    if event.request != task.requested:
        return Outcome.OVERTAKEN
    task.answered, task.withheld = event.request, True
    return Outcome.APPLIED


def _continued(task: Task, event: TaskContinued) -> Outcome:
    """Folds what `assign_part` has done to the task: in older logs only the aggregate's event says it."""
    if event.request <= task.continued:
        return Outcome.DUPLICATE
    if task.withheld or event.request != task.answered or event.part != task.part:
        return Outcome.OVERTAKEN
    task.continued = event.request
    return Outcome.APPLIED


def _taken(task: Task, event: ParametersTaken) -> Outcome:
    if event.request <= task.taken:
        return Outcome.DUPLICATE
    if event.request != task.answered:
        return Outcome.OVERTAKEN
    task.taken = event.request
    return Outcome.APPLIED


def is_idle(task: Task) -> bool:
    """Returns whether a task waits for its next trial, and nobody has asked for its end."""
    return task.idle and task.asks and not task.stop_reason and task.attempt.stopping is None


def release(task: Task) -> None:
    """Takes from a task that asks the trial that it has: what was reported is the trial's."""
    task.idle = True
    task.reports = []
    reports.forget(task)
    task_artifacts.begin_part(task)


def assign_part(task: Task, part: Part, parameters: dict[str, Any]) -> None:
    """Assigns a free task its next part, such as a trial; a later attempt of it begins with that one."""
    task.part, task.parameters = part, parameters
    task.answered, task.withheld, task.idle = task.requested, False, False


def reset_requests(task: Task) -> None:
    """Forgets the requests of a placement that is over: the next one's count from 1."""
    task.requested = task.answered = task.taken = task.continued = 0
    task.withheld = False


def is_stopping(task: Task) -> bool:
    """Returns whether the process of a task is being ended."""
    return bool(task.stop_reason) or task.attempt.stopping is not None


def continued(task: Task, part: Part, parameters: dict[str, Any]) -> TaskContinued:
    """Returns the event that a task which asks goes on with a part."""
    return TaskContinued(
        task_id=task.task_id,
        attempt=task.attempt.number,
        placement=task.attempt.placement,
        request=task.requested,
        part=part,
        parameters=parameters,
    )


def withhold(task: Task, reason: str) -> Proposal:
    """Returns the answer to a task that asks for another trial and gets none."""
    withheld = ParametersWithheld(
        task_id=task.task_id,
        attempt=task.attempt.number,
        placement=task.attempt.placement,
        request=task.requested,
        reason=reason,
    )
    return Proposal("withhold parameters", [withheld], task.changed_at, task.traceparent)
