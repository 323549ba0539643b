"""What each event does to a model: the guards that every reader folds with."""

from trackside.aggregates.model.messages import (
    EXCLUSIVE,
    ModelArchived,
    ModelRegistered,
    ModelRestored,
    ModelStageSet,
    ModelStatus,
    ModelTagged,
    ModelVersionAdded,
)
from trackside.aggregates.model.state import Model, ModelVersion, size_of
from trackside.contracts.envelope.message import Record
from trackside.domain.outcome import Outcome


def begin(model_id: str, event: ModelRegistered, record: Record) -> Model:
    """Makes the model of a ModelRegistered event."""
    spec, now_ms = event.model, record.append_time_ms
    return Model(model_id, spec, now_ms, sorted(set(spec.tags)), dict(spec.labels), changed_at=record.offset)


def evolve(model: Model, record: Record) -> Outcome:
    """Folds one event into the model; changes it only if it returns APPLIED."""
    outcome = _evolve(model, record)
    if outcome is Outcome.APPLIED:
        model.changed_at = record.offset
    return outcome


def _evolve(model: Model, record: Record) -> Outcome:
    event = record.message
    if isinstance(event, ModelRegistered):
        return Outcome.DUPLICATE
    if not isinstance(event, ModelRestored) and model.status is ModelStatus.ARCHIVED:
        return Outcome.OVERTAKEN
    if isinstance(event, ModelVersionAdded):
        return _version_added(model, event, record)
    if not isinstance(event, ModelTagged | ModelStageSet | ModelArchived | ModelRestored):
        return Outcome.OVERTAKEN
    if event.change != model.changes + 1:
        return Outcome.DUPLICATE if event.change <= model.changes else Outcome.OVERTAKEN
    outcome = _changed(model, event, record)
    model.changes += outcome is Outcome.APPLIED
    return outcome


def _changed(
    model: Model, event: ModelTagged | ModelStageSet | ModelArchived | ModelRestored, record: Record
) -> Outcome:
    match event:
        case ModelTagged():
            return _tagged(model, event)
        case ModelStageSet():
            return _stage_set(model, event)
        case ModelArchived():
            model.status = ModelStatus.ARCHIVED
            model.archived_ms, model.reason = record.append_time_ms, event.reason
            return Outcome.APPLIED
        case ModelRestored():
            return _restored(model)


def _restored(model: Model) -> Outcome:
    if model.status is not ModelStatus.ARCHIVED:
        return Outcome.OVERTAKEN
    model.status = ModelStatus.ACTIVE
    model.archived_ms, model.reason = 0, ""
    return Outcome.APPLIED


def _version_added(model: Model, event: ModelVersionAdded, record: Record) -> Outcome:
    if event.version <= len(model.versions):
        return Outcome.DUPLICATE
    spec = event.model
    follows = event.version == len(model.versions) + 1
    if not follows or model.with_digest(spec.artifact.sha256) is not None:
        return Outcome.OVERTAKEN
    added = ModelVersion(
        event.version, spec, record.append_time_ms, sorted(set(spec.tags)), dict(spec.labels)
    )
    model.versions.append(added)
    model.numbers[spec.artifact.sha256] = event.version
    model.size_bytes += size_of(spec)
    return Outcome.APPLIED


def _tagged(model: Model, event: ModelTagged) -> Outcome:
    found = model if event.version is None else model.version(event.version)
    if found is None:
        return Outcome.OVERTAKEN
    found.tags = sorted((set(found.tags) | set(event.added)) - set(event.removed))
    labels: dict[str, str | None] = {**found.labels, **event.labels}
    found.labels = {name: text for name, text in labels.items() if text is not None}
    return Outcome.APPLIED


def _stage_set(model: Model, event: ModelStageSet) -> Outcome:
    version, holder = model.version(event.version), model.holder(event.stage)
    if version is None or version.stage == event.stage or event.replaces != holder:
        return Outcome.OVERTAKEN
    if holder is not None:
        model.versions[holder - 1].stage = "none"
    if model.holder(version.stage) == event.version:
        del model.holders[version.stage]
    if event.stage in EXCLUSIVE:
        model.holders[event.stage] = event.version
    version.stage = event.stage
    return Outcome.APPLIED
