"""A worker has a placement: it accepts it, or its next incarnation adopts it after a crash."""

from trackside.contracts.envelope.message import Record
from trackside.contracts.tasks.tasks import AttemptAdopted, TaskAccepted
from trackside.domain.outcome import Outcome
from trackside.domain.tasks.task import Task, TaskState


def accepted(task: Task, event: TaskAccepted, record: Record) -> Outcome:
    """Folds that the worker has a placement in its journal and starts it."""
    if not task.has_placement(event.attempt, event.placement, event.incarnation):
        return Outcome.OVERTAKEN
    if task.state is TaskState.ACTIVE:
        return Outcome.DUPLICATE
    _activate(task, record)
    return Outcome.APPLIED


def adopted(task: Task, event: AttemptAdopted, record: Record) -> Outcome:
    """Folds that a new incarnation of the same worker has the running placement.

    It must be the current placement, of an incarnation that the worker names as an earlier one of its own.
    """
    place, attempt = task.place, task.attempt
    named = (event.attempt, event.placement) == (attempt.number, attempt.placement)
    if place is None or not named or place.worker_id != event.worker_id:
        return Outcome.OVERTAKEN
    if place.incarnation == event.incarnation:
        return Outcome.DUPLICATE
    if place.incarnation not in event.earlier:
        return Outcome.OVERTAKEN
    place.incarnation = event.incarnation
    attempt.incarnations = (*attempt.incarnations, event.incarnation)
    if task.state is TaskState.PLACED:  # the crash came before TaskAccepted was in the log
        _activate(task, record)
    return Outcome.APPLIED


def _activate(task: Task, record: Record) -> None:
    task.state = TaskState.ACTIVE
    task.attempt.accepted_ms = record.append_time_ms
    task.attempt.recalled = False
