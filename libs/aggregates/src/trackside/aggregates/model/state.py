"""The state of a model: its versions, their tags and stages. Drawn in ARCHITECTURE.md."""

from dataclasses import dataclass, field

from trackside.aggregates.model.messages import (
    ModelSpec,
    ModelStage,
    ModelStatus,
    ModelVersionSpec,
)
from trackside.domain.streams.stream import Stream


@dataclass(slots=True)
class ModelVersion:
    """A version of a model as folded from the log."""

    number: int
    """Counts the versions of the model from 1."""
    spec: ModelVersionSpec
    """Its artifact, and what was known of it when it was added."""
    added_ms: int
    """When it was added: append time of ModelVersionAdded, in ms since 1970."""
    tags: list[str]
    """Its tags, sorted."""
    labels: dict[str, str]
    """Its labels: a text for each name."""
    stage: ModelStage = "none"
    """Its stage."""


@dataclass(slots=True)
class Model:
    """A model as folded from the log."""

    model_id: str
    """Its name, which is also the id of its stream."""
    spec: ModelSpec
    """What was said of it when it was registered."""
    registered_ms: int
    """When it was registered: append time of ModelRegistered, in ms since 1970."""
    tags: list[str]
    """Its tags, sorted."""
    labels: dict[str, str]
    """Its labels: a text for each name."""
    status: ModelStatus = ModelStatus.ACTIVE
    """Its state."""
    versions: list[ModelVersion] = field(default_factory=list)
    """Its versions, oldest first: version N is at N - 1."""
    numbers: dict[str, int] = field(default_factory=dict)
    """The numbers of its versions by the digests of their bytes."""
    holders: dict[ModelStage, int] = field(default_factory=dict)
    """The version in each stage that one version has at most; without those that none is in."""
    size_bytes: int = 0
    """How long its versions are as JSON, together."""
    changes: int = 0
    """How many events have changed its tags, stages or state: the number of the newest one."""
    archived_ms: int = 0
    """When it was archived: append time of ModelArchived, in ms since 1970; 0 while it is not."""
    reason: str = ""
    """Why it is archived; empty while it is not."""
    changed_at: int = -1
    """Offset of the last event that changed it."""
    settled: list[str] = field(default_factory=list)
    """Empty: a model has no tasks."""

    @property
    def over(self) -> bool:
        """Returns True, for nothing of it runs: a model has no tasks, and changes by commands only."""
        return True

    @property
    def closed(self) -> bool:
        """Returns False, for it may still change: an archived model can be restored."""
        return False

    def has_settled(self, task_id: str) -> bool:
        """Returns False: a model has no tasks."""
        return False

    def trim(self) -> None:
        """Keeps all: any version may be tagged or get another stage."""

    def release(self) -> None:
        """Keeps all: it is never closed."""

    def version(self, number: int) -> ModelVersion | None:
        """Returns the version of a number, or None if there is none."""
        return self.versions[number - 1] if 1 <= number <= len(self.versions) else None

    def holder(self, stage: ModelStage) -> int | None:
        """Returns the number of the version that has a stage; None if none has, or several may have it."""
        return self.holders.get(stage)

    def with_digest(self, sha256: str) -> int | None:
        """Returns the number of the version with these bytes, or None."""
        return self.numbers.get(sha256)


def size_of(spec: ModelVersionSpec) -> int:
    """Returns how many bytes a version takes as JSON."""
    return len(spec.model_dump_json().encode())


def model_of(stream: Stream) -> Model | None:
    """Returns the model of a stream, or None if the stream has none."""
    return stream.root if isinstance(stream.root, Model) else None
