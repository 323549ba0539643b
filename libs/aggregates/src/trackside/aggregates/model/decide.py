"""What the dispatcher decides about models: from the command and the model alone. Pure."""

from collections.abc import Iterator

from trackside.aggregates.model.messages import (
    FORMATS,
    MAX_TAGS,
    MAX_TOTAL_BYTES,
    MAX_VERSION_BYTES,
    UNSAFE_ENDINGS,
    UNSAFE_FORMATS,
    AddModelVersion,
    ArchiveModel,
    ModelArchived,
    ModelRegistered,
    ModelRestored,
    ModelSpec,
    ModelStageSet,
    ModelStatus,
    ModelTagged,
    ModelVersionAdded,
    ModelVersionSpec,
    RegisterModel,
    RestoreModel,
    SetModelStage,
    TagModel,
    source_of,
)
from trackside.aggregates.model.state import Model, model_of, size_of
from trackside.contracts.envelope.refusals import Problem, nearest
from trackside.contracts.tasks.artifacts import MAX_MODEL_VERSIONS
from trackside.domain.folding.aggregate import Decided
from trackside.domain.folding.lookup import Lookup
from trackside.domain.streams.stream import Stream, check_not_begun, no_aggregate


def register(stream: Stream, wanted: RegisterModel, command_id: str, lookup: Lookup) -> Decided:
    """Begins a model, unless its stream is taken."""
    spec = ModelSpec(**{name: getattr(wanted, name) for name in ModelSpec.model_fields})
    return check_not_begun(stream) or [ModelRegistered(command_id=command_id, model=spec)]


def add_version(stream: Stream, wanted: AddModelVersion, command_id: str, lookup: Lookup) -> Decided:
    """Adds a version, unless the model has its bytes already, or reading it may execute code."""
    model = _changeable(stream)
    if isinstance(model, Problem):
        return model
    spec = ModelVersionSpec(**{name: getattr(wanted, name) for name in ModelVersionSpec.model_fields})
    problems = tuple(_problems(model, spec))
    number = len(model.versions) + 1
    return problems or [ModelVersionAdded(command_id=command_id, version=number, model=spec)]


def tag(stream: Stream, wanted: TagModel, command_id: str, lookup: Lookup) -> Decided:
    """Changes tags and labels of a model, or of a version; what they are already changes nothing."""
    model = _changeable(stream)
    if isinstance(model, Problem):
        return model
    found = model if wanted.version is None else model.version(wanted.version)
    if found is None:
        return _no_version(model, wanted.version or 0)
    removed = sorted(set(wanted.remove) & set(found.tags))
    added = sorted(set(wanted.add) - set(wanted.remove) - set(found.tags))
    labels = {name: text for name, text in wanted.labels.items() if found.labels.get(name) != text}
    names = {name for name, text in {**found.labels, **labels}.items() if text is not None}
    for path, count in (("$.add", len(found.tags) + len(added) - len(removed)), ("$.labels", len(names))):
        if count > MAX_TAGS:
            message = f"there would be {count}, the limit is {MAX_TAGS}; remove others in the same command"
            return Problem(code="too_long", path=path, message=message)
    if not (added or removed or labels):
        return []
    which = {"command_id": command_id, "change": model.changes + 1, "version": wanted.version}
    return [ModelTagged(**which, added=added, removed=removed, labels=labels)]


def set_stage(stream: Stream, wanted: SetModelStage, command_id: str, lookup: Lookup) -> Decided:
    """Sets the stage of a version, and takes it from the version that has it."""
    model = _changeable(stream)
    if isinstance(model, Problem):
        return model
    version = model.version(wanted.version)
    if version is None:
        return _no_version(model, wanted.version)
    if version.stage == wanted.stage:
        return []
    change, holder = model.changes + 1, model.holder(wanted.stage)
    which = {"version": wanted.version, "stage": wanted.stage, "replaces": holder}
    return [ModelStageSet(command_id=command_id, change=change, **which)]


def archive(stream: Stream, wanted: ArchiveModel, command_id: str, lookup: Lookup) -> Decided:
    """Archives a model; one that is archived stays as it is."""
    model = model_of(stream)
    if model is None:
        return no_aggregate(stream, "model")
    if model.status is ModelStatus.ARCHIVED:
        return []
    change, reason = model.changes + 1, wanted.reason
    return [ModelArchived(command_id=command_id, change=change, reason=reason)]


def restore(stream: Stream, wanted: RestoreModel, command_id: str, lookup: Lookup) -> Decided:
    """Restores a model that is archived; any other one stays as it is."""
    model = model_of(stream)
    if model is None:
        return no_aggregate(stream, "model")
    if model.status is not ModelStatus.ARCHIVED:
        return []
    return [ModelRestored(command_id=command_id, change=model.changes + 1)]


def _changeable(stream: Stream) -> Model | Problem:
    model = model_of(stream)
    if model is None:
        return no_aggregate(stream, "model")
    if model.status is ModelStatus.ARCHIVED:
        name = model.model_id
        message = f"model {name} is archived; restore it first: `trackside models restore {name}`"
        return Problem(code="already_terminal", path="$partitionkey", message=message)
    return model


def _no_version(model: Model, number: int) -> Problem:
    count = len(model.versions)
    has = "none" if not count else "version 1" if count == 1 else f"versions 1 to {count}"
    message = f"model {model.model_id} has no version {number}; it has {has}"
    return Problem(code="unknown_model_version", path="$.version", message=message)


def _problems(model: Model, spec: ModelVersionSpec) -> Iterator[Problem]:
    """Yields why a version can't be added."""
    count, size = len(model.versions), size_of(spec)
    if count >= MAX_MODEL_VERSIONS or model.size_bytes + size > MAX_TOTAL_BYTES:
        message = (
            f"model {model.model_id} has {count:,} versions of {model.size_bytes:,} bytes, the limits are "
            f"{MAX_MODEL_VERSIONS:,} and {MAX_TOTAL_BYTES:,}; register another model"
        )
        yield Problem(code="too_many_versions", path="$partitionkey", message=message)
    known = model.with_digest(spec.artifact.sha256)
    if known is not None:
        message = f"version {known} of model {model.model_id} has these bytes; tag that one"
        yield Problem(code="already_exists", path="$.artifact.sha256", message=message)
    if size > MAX_VERSION_BYTES:
        message = f"the version takes {size:,} bytes, the limit is {MAX_VERSION_BYTES:,}; save an artifact"
        yield Problem(code="too_long", path="$", message=message)
    yield from _unsafe(spec)
    yield from _contradicting(spec)


def _unsafe(spec: ModelVersionSpec) -> Iterator[Problem]:
    expected = f"expected one of: {', '.join(FORMATS)}"
    why = "reading it may execute code of the file"
    path = spec.artifact.uri.partition("?")[0].partition("#")[0]
    if spec.format.lower() in UNSAFE_FORMATS:
        message = f"{spec.format} is no format of a model: {why}; {expected}"
        yield Problem(code="unsafe_format", path="$.format", message=message)
    elif spec.format not in FORMATS:
        message = f"there is no format {spec.format!r}; {expected}{nearest(spec.format, FORMATS)}"
        yield Problem(code="unknown_value", path="$.format", message=message)
    if path.lower().endswith(UNSAFE_ENDINGS):
        message = f"a file that ends so is a pickle: {why}; save the weights as safetensors"
        yield Problem(code="unsafe_format", path="$.artifact.uri", message=message)


def _contradicting(spec: ModelVersionSpec) -> Iterator[Problem]:
    """Yields that the artifact and the task that saved it don't go with each other."""
    source, task = source_of(spec.artifact.source), spec.task
    saved_by = None if source is None else (source.stream, source.task)
    named = None if task is None else (task.stream, task.task)
    path = "$.artifact.source"
    if spec.artifact.source and source is None:
        message = f"{spec.artifact.source!r} names no artifact; expected STREAM/TASK/NAME@VERSION"
        yield Problem(code="wrong_source", path=path, message=message)
    elif (saved_by is None) != (named is None):
        message = "a version of a task's artifact has the artifact's source and the task; one is missing"
        yield Problem(code="wrong_source", path=path, message=message)
    elif saved_by is not None and named is not None and saved_by != named:
        message = f"the artifact is of {'/'.join(saved_by)}, the task is {'/'.join(named)}"
        yield Problem(code="wrong_source", path=path, message=message)
