"""INV-10 of tasks that ask for one trial after another: requests and their answers are in order."""

from trackside.contracts.tasks.tasks import (
    ParametersRequested,
    ParametersTaken,
    ParametersWithheld,
    TaskContinued,
)
from trackside.verify.checks.tasks.placement_events import ParametersEvent
from trackside.verify.checks.tasks.task_history import TaskHistory, TaskPhase


def check_request(task: TaskHistory, event: ParametersEvent) -> bool:
    """Takes in a request of the current placement, or its answer; returns whether it is legal."""
    legal = task.phase is TaskPhase.ACTIVE
    match event:
        case ParametersRequested(request=number):
            legal = legal and task.taken + 1 == task.requested + 1 == number
            task.requested = number
        case ParametersWithheld(request=number):
            legal = legal and task.answered < task.requested == number
            task.answered = number
        case TaskContinued(request=number, part=part):
            legal = legal and task.continued < task.answered == number and part == task.part
            task.continued = number
        case ParametersTaken(request=number):
            legal = legal and task.taken < task.answered == number
            task.taken = number
    return legal
