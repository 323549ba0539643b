"""INV-21: what running tasks save, continue from and acknowledge is legal when it is said."""

from collections.abc import Mapping

from trackside.contracts.envelope.message import Record
from trackside.contracts.tasks.artifacts import (
    CHECKPOINT,
    ArtifactSaved,
    ArtifactsForgotten,
    TaskResumed,
    artifact_source,
)
from trackside.contracts.tasks.instructions import InstructionAcknowledged, InstructionGiven, TaskReady
from trackside.contracts.tasks.resources import Retry
from trackside.domain.checks.findings import Findings
from trackside.verify.checks.tasks.attempt_ends import check_saved
from trackside.verify.checks.tasks.task_history import TaskHistory, TaskPhase

SERVICE_RETRY = Retry(backoff_s=10.0, max_backoff_s=360.0)
"""How long a service waits before it is tried again, which it is without limit."""
SERVED_MS = 600_000
"""How long a service must have been ready for its attempts to be counted anew, ms."""
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
    problem = _problem(task, event, record, findings)
    if problem:
        findings.add("INV-21", record, f"{name}: {problem}")


def _problem(
    task: TaskHistory,
    event: ArtifactSaved | TaskResumed | TaskReady | InstructionAcknowledged,
    record: Record,
    findings: Findings,
) -> str:
    """Takes in what a placement that runs says; returns what is wrong with it, or nothing."""
    match event:
        case ArtifactSaved():
            check_saved(event, record, findings)
            return _saved(task, event, record.envelope.stream)
        case TaskResumed():
            began = task.last_step is not None or task.has_final or task.resumed
            of_now = event.interrupts == task.interrupted and event.requests == task.taken and not task.idle
            task.resumed, task.last_step = True, event.step - 1
            given = event.checkpoint
            known = task.saved_as.get(given.sha256)
            if not known and task.submitted is not None and task.submitted.checkpoint is not None:
                begun = task.submitted.checkpoint
                if begun.sha256 == given.sha256 and begun != given:
                    findings.differs(record, "the checkpoint", given.model_dump(), begun.model_dump())
            elif known and (given.uri, given.size_bytes, given.media_type, given.source) not in known:
                findings.differs(record, "the checkpoint", given.model_dump(), known)
            if (event.checkpoint.sha256, event.step) not in task.candidates:
                return f"no checkpoint of step {event.step} with this digest was saved before, or given"
            if not of_now:
                return "it is of a training that is over"
            return "the training had begun already" if began else ""
        case TaskReady():
            before, task.ready = task.ready, event.number
            task.ready_ms = task.ready_ms or record.append_time_ms
            task.details.append(event.detail)
            if task.needs.service is None:
                return "it is no service"
            return "" if event.number == before + 1 else f"number {event.number} comes after number {before}"
        case InstructionAcknowledged():
            before, task.acknowledged = task.acknowledged, event.number
            is_newest = before < event.number == task.instruction
            return "" if is_newest else f"instruction {event.number}, when {task.instruction} was the newest"


def _saved(task: TaskHistory, event: ArtifactSaved, stream: str) -> str:
    before, task.saved = task.saved, event.number
    version, task.versions[event.name] = task.versions.get(event.name, 0), event.version
    if event.kind == CHECKPOINT and event.step is not None:
        task.checkpoints.add((event.sha256, event.step))
        source = artifact_source(stream, event.task_id, event.name, event.version)
        said = (event.uri, event.size_bytes, event.media_type, source)
        task.saved_as.setdefault(event.sha256, []).append(said)
        task.candidates.append((event.sha256, event.step))
        if event.requests != task.taken or task.idle:
            return "it is a checkpoint of a training that is over"
    if event.requests != task.taken:
        return "it is of a part that is over"
    if event.number != before + 1:
        return f"number {event.number} comes after number {before}"
    follows = event.version == version + 1
    return "" if follows else f"version {event.version} of {event.name} comes after version {version}"


def check_forgotten(
    tasks: Mapping[str, TaskHistory], event: ArtifactsForgotten, record: Record, findings: Findings
) -> None:
    """Checks that no task which has not ended needs what is forgotten: as an input, or to continue."""
    for task in tasks.values():
        if task.phase is not TaskPhase.ENDED:
            newest = {digest for digest, _ in task.candidates[-task.needs.keep_checkpoints.newest :]}
            lost = sorted((task.needed | newest) & set(event.artifacts))
            if lost:
                findings.add("INV-21", record, f"{lost[0]} is forgotten, which task {task.task_id} needs")


def service_failures(task: TaskHistory, record: Record) -> int:
    """Counts the attempts of a service since one that served for long, with the one that ends now."""
    served_ms = record.append_time_ms - task.ready_ms if task.ready_ms else 0
    task.failures = 1 if served_ms >= SERVED_MS else task.failures + 1
    return task.failures


def begin_placement(task: TaskHistory) -> None:
    """Forgets what only the placement before has saved and said."""
    task.saved = task.ready = task.acknowledged = task.ready_ms = 0
    task.resumed = False
    task.counted.clear()
    task.reported.clear()
    task.out_of_order = False
