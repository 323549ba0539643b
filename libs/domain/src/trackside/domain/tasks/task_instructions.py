"""Instructions to a task, what it answers, and that a service is ready."""

from trackside.contracts.envelope.message import Record
from trackside.contracts.tasks.instructions import (
    Instruction,
    InstructionAcknowledged,
    InstructionGiven,
    TaskReady,
)
from trackside.domain.outcome import Outcome
from trackside.domain.tasks.task import Task, TaskState


def given(task: Task, event: InstructionGiven) -> Outcome:
    """Folds a new instruction, which replaces the one before."""
    newest = 0 if task.instruction is None else task.instruction.number
    if event.number <= newest:
        return Outcome.DUPLICATE
    if event.number != newest + 1 or task.stop_reason:
        return Outcome.OVERTAKEN
    task.instruction = Instruction(number=event.number, body=event.body)
    return Outcome.APPLIED


def acknowledged(task: Task, event: InstructionAcknowledged) -> Outcome:
    """Folds what the running placement says of an instruction; only of the newest one it counts."""
    if not task.runs(event.attempt, event.placement, event.incarnation):
        return Outcome.OVERTAKEN
    if event.number <= task.acknowledged:
        return Outcome.DUPLICATE
    if task.instruction is None or event.number != task.instruction.number:
        return Outcome.OVERTAKEN
    task.acknowledged = event.number
    task.acknowledgement = (event.ok, event.detail)
    return Outcome.APPLIED


def ready(task: Task, event: TaskReady, record: Record) -> Outcome:
    """Folds that the running placement of a service serves, or what it says of that has changed."""
    attempt = task.attempt
    if not task.runs(event.attempt, event.placement, event.incarnation) or task.needs.service is None:
        return Outcome.OVERTAKEN
    if event.number <= attempt.ready_number:
        return Outcome.DUPLICATE
    attempt.ready_number = event.number
    attempt.ready_ms = attempt.ready_ms or record.append_time_ms
    attempt.ready = event.detail
    return Outcome.APPLIED


def is_unacknowledged(task: Task) -> bool:
    """Returns whether the running placement has yet to acknowledge the newest instruction of its task."""
    instruction = task.instruction
    waits = instruction is not None and task.acknowledged < instruction.number
    return waits and task.state is TaskState.ACTIVE


def is_ready(task: Task) -> bool:
    """Returns whether a task is a service whose running placement has said that it is ready."""
    return task.state is TaskState.ACTIVE and task.needs.service is not None and task.attempt.ready_ms > 0
