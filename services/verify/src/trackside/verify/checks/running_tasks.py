"""INV-21: what running tasks save, continue from and acknowledge is legal when it is said."""

from trackside.contracts.artifacts import CHECKPOINT, ArtifactSaved, TaskResumed
from trackside.contracts.instructions import InstructionAcknowledged, InstructionGiven, TaskReady
from trackside.contracts.message import Record
from trackside.domain.findings import Findings
from trackside.verify.checks.task_history import TaskHistory, TaskPhase

RunningEvent = ArtifactSaved | TaskResumed | TaskReady | InstructionGiven | InstructionAcknowledged


def check_running(task: TaskHistory, event: RunningEvent, record: Record, findings: Findings) -> None:
    """Checks an event that only a running task has, or an instruction to one, and takes it in."""
    findings.checked["INV-21"] += 1
    if isinstance(event, InstructionGiven):
        if event.number != task.instruction + 1 or task.stop_requested:
            findings.add("INV-21", record, f"instruction {event.number} of {task.task_id} is given too late")
        task.instruction = event.number
        return
    name = f"{type(event).__name__} of task {task.task_id}"
    said = (event.attempt, event.placement, event.incarnation)
    if said != (task.attempt, task.placement, task.incarnation) or task.phase is not TaskPhase.ACTIVE:
        findings.add("INV-21", record, f"{name} is not of a placement that runs")
        return
    problem = _problem(task, event)
    if problem:
        findings.add("INV-21", record, f"{name}: {problem}")


def _problem(
    task: TaskHistory, event: ArtifactSaved | TaskResumed | TaskReady | InstructionAcknowledged
) -> str:
    """Takes in what a placement that runs says; returns what is wrong with it, or nothing."""
    match event:
        case ArtifactSaved():
            before, task.saved = task.saved, event.number
            if event.kind == CHECKPOINT and event.step is not None:
                task.checkpoints.add((event.sha256, event.step))
            return "" if event.number > before else f"number {event.number} comes after number {before}"
        case TaskResumed():
            began = task.last_step is not None or task.has_final or task.resumed
            task.resumed, task.last_step = True, event.step - 1
            if (event.checkpoint.sha256, event.step) not in task.checkpoints:
                return f"no checkpoint of step {event.step} with this digest was saved before, or given"
            return "the training had begun already" if began else ""
        case TaskReady():
            before, task.ready = task.ready, event.number
            if task.needs.service is None:
                return "it is no service"
            return "" if event.number > before else f"number {event.number} comes after number {before}"
        case InstructionAcknowledged():
            before, task.acknowledged = task.acknowledged, event.number
            is_newest = before < event.number == task.instruction
            return "" if is_newest else f"instruction {event.number}, when {task.instruction} was the newest"


def begin_placement(task: TaskHistory) -> None:
    """Forgets what only the placement before has saved and said."""
    task.saved = task.ready = task.acknowledged = 0
    task.resumed = False
