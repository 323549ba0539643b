"""What a task saves, and what it continues from: artifacts and checkpoints."""

import json
from collections.abc import Sequence

from pydantic import ValidationError

from trackside.contracts.envelope.message import Json, Record
from trackside.contracts.tasks.artifacts import (
    CHECKPOINT,
    MAX_ARTIFACTS,
    MAX_METADATA_BYTES,
    MODEL,
    ArtifactReference,
    ArtifactSaved,
    CheckpointReference,
    TaskResumed,
    artifact_source,
)
from trackside.contracts.tasks.resources import KeepCheckpoints
from trackside.domain.outcome import Outcome
from trackside.domain.tasks.task import SavedArtifact, SavedCheckpoint, Task

KEPT_METADATA = 10
"""Of how many models the metadata of a task are kept: those saved last."""
MAX_OFFERED = 4
"""How many checkpoints a worker is told of: it tries the next one where one can't be read."""


def saved(task: Task, event: ArtifactSaved, record: Record) -> Outcome:
    """Folds an artifact that the running placement has saved: the numbers of a placement rise."""
    if not task.runs(event.attempt, event.placement, event.incarnation):
        return Outcome.OVERTAKEN
    attempt = task.attempt
    if event.number <= attempt.saved:
        return Outcome.DUPLICATE
    try:
        reference = _reference(event, record)
    except ValidationError:
        return Outcome.OVERTAKEN  # no artifact can be like that
    if event.kind == CHECKPOINT:
        if not isinstance(reference, CheckpointReference) or event.requests != task.taken or task.idle:
            return Outcome.OVERTAKEN  # it is of a trial that this task has finished
        if task.step_limit is None or reference.step <= task.step_limit:
            # Later ones are of steps that don't count, and would push out the one to continue from.
            _add_checkpoint(task, reference, record.offset)
        task.checkpoint_version = max(task.checkpoint_version, event.version)
    else:
        known = task.artifacts.get(event.name)
        # One may be skipped: the store never had its bytes.
        is_newer = event.version > (0 if known is None else known.version)
        if not is_newer or task.saved >= MAX_ARTIFACTS:
            return Outcome.OVERTAKEN
        task.artifacts[event.name] = SavedArtifact(
            event.version, event.kind, reference, event.attempt, record.offset, _kept_metadata(event)
        )
        if event.metadata and event.kind == MODEL:
            _forget_metadata(task)
        task.saved += 1
    attempt.saved = event.number
    return Outcome.APPLIED


def newest_model(task: Task) -> tuple[str, SavedArtifact] | None:
    """Returns the model that a task saved last, with its name; None if it has saved none."""
    models = [(name, each) for name, each in task.artifacts.items() if each.kind == MODEL]
    return max(models, key=lambda model: model[1].saved_at, default=None)


def _kept_metadata(event: ArtifactSaved) -> Json:
    """Returns what is kept of the metadata: all of a model, nothing over the limit."""
    fits = event.kind == MODEL and len(json.dumps(event.metadata)) <= MAX_METADATA_BYTES
    return event.metadata if fits else {}


def _forget_metadata(task: Task) -> None:
    described = [each for each in task.artifacts.values() if each.metadata]
    if len(described) > KEPT_METADATA:
        min(described, key=lambda each: each.saved_at).metadata = {}


def _reference(event: ArtifactSaved, record: Record) -> ArtifactReference:
    """Returns the reference to what was saved; raises ValidationError if its fields make none."""
    reference = ArtifactReference(
        uri=event.uri,
        sha256=event.sha256,
        size_bytes=event.size_bytes,
        media_type=event.media_type,
        source=artifact_source(record.envelope.stream, event.task_id, event.name, event.version),
    )
    if event.kind != CHECKPOINT or event.step is None:
        return reference
    return CheckpointReference(**dict(reference), step=event.step)


def _add_checkpoint(task: Task, checkpoint: CheckpointReference, offset: int) -> None:
    before = (value for at, value in reversed(task.reports) if at < checkpoint.step and value is not None)
    added = SavedCheckpoint(checkpoint, next(before, None), offset)
    task.checkpoints = kept([*task.checkpoints, added], task.needs.keep_checkpoints)


def kept(checkpoints: Sequence[SavedCheckpoint], rule: KeepCheckpoints) -> list[SavedCheckpoint]:
    """Returns the checkpoints that a rule keeps, in the given order: the newest, and those of best value.

    Of equal values the newest one is the best; one without a value is none of the best.
    """
    sign = 1 if rule.direction == "maximize" else -1
    valued = [
        (sign * each.value, number) for number, each in enumerate(checkpoints) if each.value is not None
    ]
    best = {number for _, number in sorted(valued, reverse=True)[: rule.best]}
    newest = len(checkpoints) - rule.newest
    return [each for number, each in enumerate(checkpoints) if number >= newest or number in best]


def candidates(task: Task) -> list[CheckpointReference]:
    """Returns the checkpoints that a placement may continue from, the best choice first."""
    own = [each.reference for each in reversed(task.checkpoints)] if task.needs.resume else []
    return own if task.checkpoint is None else [*own, task.checkpoint]


def offered(task: Task) -> list[CheckpointReference]:
    """Returns the candidates that a worker is told: at most four, that of another task among them."""
    found = candidates(task)
    return found if len(found) <= MAX_OFFERED else [*found[: MAX_OFFERED - 1], found[-1]]


def versions(task: Task) -> dict[str, int]:
    """Returns the newest version of each artifact that a task has saved, by name, checkpoints included."""
    found = {name: artifact.version for name, artifact in task.artifacts.items()}
    return found | ({CHECKPOINT: task.checkpoint_version} if task.checkpoint_version else {})


def resumed(task: Task, event: TaskResumed) -> Outcome:
    """Folds that a training continues: what was reported below its step counts again."""
    attempt = task.attempt
    if (
        not task.runs(event.attempt, event.placement, event.incarnation)
        or event.interrupts != attempt.interrupted
    ):
        return Outcome.OVERTAKEN
    if attempt.resumed is not None:
        return Outcome.DUPLICATE
    # Only what the log knows as a checkpoint of this task, or what it was given, puts reports back.
    known = event.checkpoint.step == event.step and any(
        each.sha256 == event.checkpoint.sha256 and each.step == event.step for each in candidates(task)
    )
    if not known or task.reports or task.has_final or event.requests != task.taken or task.idle:
        return Outcome.OVERTAKEN
    attempt.resumed = event.checkpoint
    task.reports = [(step, value) for step, value in task.earlier if step < event.step]
    if task.reports and len(task.reports) == len(task.earlier) and task.earlier_beside is not None:
        task.non_finite, task.others = task.earlier_beside
    return Outcome.APPLIED


def begin_placement(task: Task) -> None:
    """Forgets what only the placement before has saved, said and continued from."""
    attempt = task.attempt
    attempt.saved = attempt.ready_ms = attempt.ready_number = 0
    attempt.resumed = None
    attempt.ready = {}
    task.acknowledged = 0


def begin_part(task: Task) -> None:
    """Forgets the checkpoints of the part that a task has finished: the next one has none."""
    task.checkpoints = []
    task.earlier.clear()
    task.checkpoint = task.attempt.resumed = None
