"""What a job reads of other streams: its dataset, and versions of models. Pure."""

from typing import Any, Protocol

from trackside.aggregates.rounds.job.deploy_messages import RoundModel
from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.contracts.tasks.tasks import Figure
from trackside.domain.folding.lookup import Lookup


class _End(Protocol):
    lines: int
    size: int
    sha256: str


class _DatasetSpec(Protocol):
    url: str
    format: str
    credential: str | None


class DatasetState(Protocol):
    """What is read of a dataset."""

    spec: _DatasetSpec
    end: _End
    metrics: dict[str, Figure]
    changed_at: int

    @property
    def status(self) -> str:
        """Its state, such as ACTIVE or DELETED."""
        ...


class _VersionSpec(Protocol):
    artifact: ArtifactReference
    format: str


class _Version(Protocol):
    number: int
    spec: _VersionSpec


class ModelState(Protocol):
    """What is read of a model."""

    versions: list[Any]

    @property
    def status(self) -> str:
        """Its state: ACTIVE or ARCHIVED."""
        ...

    def version(self, number: int) -> _Version | None:
        """Returns a version, or None if the model has none of this number."""
        ...

    def with_digest(self, sha256: str) -> int | None:
        """Returns the number of the version with these bytes, or None."""
        ...


def dataset_state(lookup: Lookup, name: str) -> DatasetState | None:
    """Returns a dataset, or None if there is none."""
    stream = lookup.find(name)
    found: DatasetState | None = stream.root if stream is not None and stream.kind == "dataset" else None
    return found


def model_state(lookup: Lookup, name: str) -> ModelState | None:
    """Returns a model, or None if there is none."""
    stream = lookup.find(name)
    found: ModelState | None = stream.root if stream is not None and stream.kind == "model" else None
    return found


def round_model(lookup: Lookup, name: str, number: int) -> RoundModel | None:
    """Returns a version of a model as a job works with it, or None if there is none."""
    model = model_state(lookup, name)
    version = None if model is None else model.version(number)
    if version is None:
        return None
    spec = version.spec
    return RoundModel(model=name, version=number, artifact=spec.artifact, format=spec.format)
