"""The fields of the events of a worker that name a placement."""

from typing import Any

from trackside.domain.task import Task


def token(task: Task) -> dict[str, Any]:
    """Returns the fields that name the placement that a task has, or had last."""
    attempt = task.attempt
    incarnation = task.place.incarnation if task.place is not None else "i1"
    named = {"task_id": task.task_id, "attempt": attempt.number, "placement": attempt.placement}
    return {**named, "incarnation": incarnation}
