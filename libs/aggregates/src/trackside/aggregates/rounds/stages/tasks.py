"""The tasks and children of a job in the fold: which ones count, and what becomes of them."""

from collections.abc import Iterable
from typing import Any

from trackside.aggregates.rounds.job.service_counts import unreported
from trackside.aggregates.rounds.messages import JobStatus, ModelVersionSummary, StageState
from trackside.aggregates.rounds.stages import deletion
from trackside.aggregates.rounds.stages.task_ids import (
    DELETE,
    ROUND,
    SERVE,
    UPDATE,
    round_task,
    samples_of,
    service_targets,
    service_task,
    update_task,
)
from trackside.aggregates.rounds.state import (
    IncrementalJob,
    ModelUpdate,
    ServiceState,
    TaskOutcome,
)
from trackside.contracts.envelope.message import Json, Record
from trackside.contracts.envelope.parts import Part
from trackside.contracts.fleet.fleet import COPY_MODEL, WRITE_MANIFEST
from trackside.contracts.streams.children import ChildRequested
from trackside.contracts.tasks.instructions import InstructionAcknowledged, InstructionGiven
from trackside.contracts.tasks.tasks import AttemptAdopted, AttemptEnd, TaskAccepted, TaskSubmitted
from trackside.domain.streams.child import REFUSED, Child
from trackside.domain.tasks.retries import backoff_ms
from trackside.domain.tasks.task import Task
from trackside.domain.tasks.trained_models import models_of_child, trained_model

SUCCEEDED = frozenset({"SUCCEEDED", "DONE"})
"""The statuses of a child that has done what it was for."""
_STARTS = frozenset({TaskAccepted, AttemptAdopted})


def admits(job: IncrementalJob, event: TaskSubmitted) -> bool:
    """Returns whether a task is the next one for its purpose, and that is wanted now."""
    part = event.part
    if part is None:
        return False
    if job.status is JobStatus.DELETED:
        return deletion.admits(job, event)
    match part.kind:
        case "round":
            return _admits_round(job, event, part)
        case "update":
            return _admits_update(job, event, part)
        case "serve":
            target = f"{SERVE}.{part.name}.{part.number}"
            service = job.services.get(target)
            if service is None or service.running or target not in service_targets(job.spec.deploy):
                return False
            live = event.inputs.get("model") == job.live.artifact
            return live and (event.task_id, part) == service_task(job, target)
    return False


def _admits_round(job: IncrementalJob, event: TaskSubmitted, part: Part) -> bool:
    round_ = job.round
    if round_ is None or (event.task_id, part) != round_task(job, part.name) or part.name in job.open_tasks:
        return False
    outcome = round_.outcomes.get(part.name)
    if job.stage_state is not StageState.READY or (outcome is not None and outcome.succeeded):
        return False
    if part.name == samples_of(job.stage):
        return event.task_type == WRITE_MANIFEST and job.stage not in round_.manifests
    if part.name != job.stage or job.stage == "deploy" or round_.base is None:
        return False
    wanted = round_.spec.train if job.stage == "train" else round_.spec.eval
    return event.task_type == wanted.task_type and job.stage in round_.manifests


def _admits_update(job: IncrementalJob, event: TaskSubmitted, part: Part) -> bool:
    update = job.update
    if update is None or part.name not in update.open or part.name in job.open_tasks:
        return False
    outcome = update.outcomes.get(part.name)
    if (outcome is not None and outcome.succeeded) or update.failed:
        return False
    return event.task_type == COPY_MODEL and (event.task_id, part) == update_task(job, part.name)


def admits_child(job: IncrementalJob, event: ChildRequested) -> bool:
    """Returns whether a child is the stage that is to run now."""
    round_ = job.round
    if round_ is None or job.status is JobStatus.DELETED or job.stage_state is not StageState.READY:
        return False
    if job.stage == "deploy" or job.stage not in round_.manifests or job.stage in job.open_tasks:
        return False
    wanted = round_.spec.train if job.stage == "train" else round_.spec.eval
    child_id, _ = round_task(job, job.stage)
    return (event.child_id, event.kind) == (child_id, wanted.kind) and round_.base is not None


def task_submitted(job: IncrementalJob, task: Task, record: Record) -> None:
    """Takes in that a task was submitted."""
    part = task.part
    assert part is not None
    job.changed_at, job.clock_ms = record.offset, record.append_time_ms
    if part.kind == SERVE:
        target = f"{SERVE}.{part.name}.{part.number}"
        service = job.services[target]
        if job.update is not None:  # it begins with the model before
            job.update.open[target] = None
            job.update.again_ms.pop(target, None)
        service.tasks, service.running, service.retired = service.tasks + 1, True, False
        service.told, service.refused = (0, 0), 0
        service.failures = service.again_ms = 0
        service.serves, service.sha256 = job.live_update, job.live.artifact.sha256
        service.counted = service.counted_by = (0, 0)
        return
    job.open_tasks[part.name] = task.task_id
    if part.kind == DELETE:
        deletion.task_submitted(job, record)
        return
    owner = job.round if part.kind == ROUND else job.update
    assert owner is not None
    owner.tasks[part.name] = owner.tasks.get(part.name, 0) + 1
    owner.outcomes.pop(part.name, None)
    if isinstance(owner, ModelUpdate):
        owner.again_ms.pop(part.name, None)
    if part.kind == ROUND and part.name == job.stage:
        job.stage_state = StageState.STARTING


def task_changed(job: IncrementalJob, task: Task, record: Record) -> None:
    """Takes in what became of a task."""
    part = task.part
    assert part is not None
    if part.kind == SERVE:
        _service_changed(job, f"{SERVE}.{part.name}.{part.number}", task, record)
    elif job.open_tasks.get(part.name) == task.task_id:
        if task.end is not None:
            del job.open_tasks[part.name]
            job.settled.append(task.task_id)
            if part.kind == DELETE:
                deletion.task_ended(job, _outcome_of(task, record), record)
            else:
                _note(job, part, _outcome_of(task, record), record)
        elif type(record.message) in _STARTS and part.kind == ROUND and part.name == job.stage:
            job.stage_state = StageState.RUNNING
        else:
            return
    elif task.end is not None:
        job.settled.append(task.task_id)
    job.changed_at, job.clock_ms = record.offset, record.append_time_ms


def _service_changed(job: IncrementalJob, target: str, task: Task, record: Record) -> None:
    service, event = job.services[target], record.message
    if task.task_id != service_task(job, target, service.tasks)[0]:
        return
    if isinstance(event, InstructionGiven):
        update: Any = event.body.get("update")
        number = update if isinstance(update, int) else 0
        service.told = (number, service.told[1] + 1 if service.told[0] == number else 1)
        service.again_ms = 0
        if job.update is not None and job.update.number == number:
            job.update.again_ms.pop(target, None)
    elif isinstance(event, InstructionAcknowledged):
        asked = task.instruction is not None and "update" in task.instruction.body
        if asked and (job.update is None or target not in job.update.open):
            _note_answer(service, event, record)
    if task.end is not None and service.running:
        service.left = unreported(task, service.counted, service.counted_by)
        service.running = service.retired = False
        job.settled.append(task.task_id)


def _note_answer(service: ServiceState, event: InstructionAcknowledged, record: Record) -> None:
    """Notes the answer of a service that has restarted: it had confirmed the model before."""
    if event.ok and event.detail.get("sha256") == service.sha256:
        service.failures = service.again_ms = 0
        return
    service.failures += 1
    service.again_ms = record.append_time_ms + backoff_ms(service.failures)


def child_changed(job: IncrementalJob, child: Child, record: Record) -> None:
    """Takes in that the child that is a stage was requested, or has ended."""
    round_ = job.round
    if round_ is None:
        return
    job.changed_at, job.clock_ms = record.offset, record.append_time_ms
    if child.open:
        if not child.stopping and job.stage not in job.open_tasks:
            job.open_tasks[job.stage] = child.child_id
            round_.tasks[job.stage] = round_.tasks.get(job.stage, 0) + 1
            job.stage_state = StageState.RUNNING
        return
    if job.open_tasks.get(job.stage) != child.child_id:
        return
    del job.open_tasks[job.stage]
    job.settled.append(child.child_id)
    succeeded = child.status in SUCCEEDED
    reason = "" if succeeded else "child_refused" if child.status == REFUSED else "child_failed"
    message = "" if succeeded else f"{child.kind} {child.child_id} has ended as {child.status}"
    round_.outcomes[job.stage] = TaskOutcome(
        succeeded,
        record.offset,
        dict(child.result),
        reason,
        message,
        _summaries(models_of_child(child.result)),
    )


def _summaries(models: Iterable[Json]) -> list[ModelVersionSummary]:
    """Returns models that a task has saved or a child has found, as an event has them."""
    return [ModelVersionSummary.model_validate(each) for each in models]


def _note(job: IncrementalJob, part: Part, outcome: TaskOutcome, record: Record) -> None:
    owner = job.round if part.kind == ROUND else job.update if part.kind == UPDATE else None
    if owner is None or owner.number != part.number:
        return
    owner.outcomes[part.name] = outcome
    if not outcome.succeeded and part.kind == ROUND and part.name == samples_of(job.stage):
        job.again_ms = record.append_time_ms + backoff_ms(owner.tasks[part.name])


def _outcome_of(task: Task, record: Record) -> TaskOutcome:
    attempt = task.attempts[-1]
    if task.end is AttemptEnd.FINISHED:
        newest = sorted(task.artifacts.values(), key=lambda saved: saved.saved_at, reverse=True)
        found = [trained_model(saved) for saved in newest if saved.kind == "model"]
        return TaskOutcome(True, record.offset, dict(task.result or {}), models=_summaries(found))
    error = attempt.error
    reason = "task_failed" if error is None else _code(error.type)
    message = f"its task has ended as {task.end}" if error is None else error.message
    return TaskOutcome(False, record.offset, {}, reason, message[:1_000])


def _code(error_type: str) -> str:
    """Returns the type of an error as a code: DatasetChanged as dataset_changed."""
    name = error_type.rpartition(".")[2]
    words = "".join(f"_{each.lower()}" if each.isupper() else each for each in name)
    return words.strip("_")[:100] or "task_failed"
