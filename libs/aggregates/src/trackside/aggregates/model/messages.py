"""Models: versions of trained weights, where each one comes from, and which one is in use."""

import re
from enum import StrEnum
from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from trackside.contracts.envelope.ids import Identifier
from trackside.contracts.envelope.message import DISPATCHER, Command, Event, Json, is_absent
from trackside.contracts.tasks.artifacts import MAX_MODEL_VERSIONS, ArtifactReference, Inputs
from trackside.contracts.tasks.tasks import Figure

MAX_TOTAL_BYTES = 64 * 2**20
"""How long the versions of a model may be as JSON, together: its state has all of them."""
MAX_TAGS = 50
"""How many tags a model or a version may have, and how many labels."""
MAX_VERSION_BYTES = 65_536
"""How long a version may be as JSON: its artifact is in the store, this is what is known of it."""
FORMATS = ("safetensors", "torch", "onnx", "npz", "gguf", "json", "csv", "text", "file")
"""The formats of models: none of them executes anything when it is read. `torch`: with weights_only."""
UNSAFE_FORMATS = ("pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve")
"""Formats that execute code of the file when they are read."""
UNSAFE_ENDINGS = (".pkl", ".pickle", ".dill", ".joblib")
_SOURCE = re.compile(r"([^/@]+)/([^/@]+)/([^/@]+)@([1-9][0-9]{0,8})")

Text = Annotated[str, Field(max_length=1_000)]
Tags = Annotated[list[Identifier], Field(max_length=MAX_TAGS)]
ModelStage = Literal["none", "staging", "production", "archived"]
EXCLUSIVE: frozenset[ModelStage] = frozenset({"staging", "production"})
"""The stages that one version of a model has at most."""


class ModelStatus(StrEnum):
    """The states of a model; an archived one is not changed until it is restored."""

    ACTIVE = "ACTIVE"
    ARCHIVED = "ARCHIVED"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ModelSpec(_Part):
    """What is said of a model as a whole: tags are words, labels have a value each."""

    description: str = Field(default="", max_length=10_000, exclude_if=is_absent)
    tags: Tags = Field(default=[], exclude_if=is_absent)
    labels: dict[Identifier, Text] = Field(default={}, max_length=MAX_TAGS, exclude_if=is_absent)


class TrainedBy(_Part):
    """The attempt of a task that has saved the artifact of a version."""

    stream: Identifier
    task: Identifier
    attempt: int = Field(ge=1, le=2**53)


class ModelVersionSpec(_Part):
    """A version of a model: its artifact, and what is known of it.

    `devices` are the kinds of devices that it runs on, such as `cpu` and `cuda`; empty if that isn't known.
    `task` has saved the artifact with `parameters`, `metrics` and `inputs`; None for one from outside.
    """

    artifact: ArtifactReference
    framework: str = Field(default="", max_length=100, exclude_if=is_absent)
    format: str = Field(default="file", min_length=1, max_length=100)
    devices: list[Identifier] = Field(default=[], max_length=20, exclude_if=is_absent)
    tags: Tags = Field(default=[], exclude_if=is_absent)
    labels: dict[Identifier, Text] = Field(default={}, max_length=MAX_TAGS, exclude_if=is_absent)
    config: Json = Field(default={}, exclude_if=is_absent)
    comment: str = Field(default="", max_length=10_000, exclude_if=is_absent)
    task: TrainedBy | None = Field(default=None, exclude_if=is_absent)
    parameters: Json = Field(default={}, exclude_if=is_absent)
    metrics: dict[str, Figure] = Field(default={}, max_length=1_000, exclude_if=is_absent)
    inputs: Inputs = Field(default={}, exclude_if=is_absent)


class RegisterModel(Command, ModelSpec):
    """Asks for a model without versions, under the stream id of the command, which is its name."""


class AddModelVersion(Command, ModelVersionSpec):
    """Asks for the next version of a model; its number follows that of the version before."""


class TagModel(Command):
    """Asks for other tags and labels of a model, or of one version; a label that is null is removed."""

    version: int | None = Field(default=None, ge=1, le=MAX_MODEL_VERSIONS)
    add: Tags = Field(default=[])
    remove: Tags = Field(default=[])
    labels: dict[Identifier, Text | None] = Field(default={}, max_length=MAX_TAGS)


class SetModelStage(Command):
    """Asks for a stage of a version: `staging` and `production` are taken from the version that has it."""

    version: int = Field(ge=1, le=MAX_MODEL_VERSIONS)
    stage: ModelStage


class ArchiveModel(Command):
    """Asks that a model is not changed any more; its versions remain."""

    reason: str = Field(default="", max_length=1_000)


class RestoreModel(Command):
    """Asks that a model that is archived may be changed again."""


class ModelRegistered(Event):
    """A model has begun, without versions."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    model: ModelSpec


class ModelVersionAdded(Event):
    """A model has another version; `version` counts from 1."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    version: int
    model: ModelVersionSpec


class ModelTagged(Event):
    """A model, or the version, has other tags and labels; a label that is null was removed.

    `change` counts what was changed of a model from 1, in all events but those that begin it or add versions.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int
    version: int | None = None
    added: list[str] = Field(default=[], exclude_if=is_absent)
    removed: list[str] = Field(default=[], exclude_if=is_absent)
    labels: dict[str, str | None] = Field(default={}, exclude_if=is_absent)


class ModelStageSet(Event):
    """A version has this stage; `replaces` is the version that had it, whose stage is `none` now."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int
    version: int
    stage: ModelStage
    replaces: int | None = Field(default=None, exclude_if=is_absent)


class ModelArchived(Event):
    """A model is not changed until it is restored."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int
    reason: str = ""


class ModelRestored(Event):
    """A model that was archived may be changed again."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int


class ArtifactSource(NamedTuple):
    """The artifact of a task that a reference names."""

    stream: str
    task: str
    name: str
    version: int


def source_of(text: str) -> ArtifactSource | None:
    """Returns what `STREAM/TASK/NAME@VERSION` names; None for any other text."""
    found = _SOURCE.fullmatch(text)
    return None if found is None else ArtifactSource(found[1], found[2], found[3], int(found[4]))
