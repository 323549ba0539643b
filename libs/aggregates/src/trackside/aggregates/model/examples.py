"""One example of every message of models, with every field in it: part of the published schemas."""

from trackside.aggregates.model.messages import (
    AddModelVersion,
    ArchiveModel,
    ModelArchived,
    ModelRegistered,
    ModelRestored,
    ModelSpec,
    ModelStageSet,
    ModelTagged,
    ModelVersionAdded,
    ModelVersionSpec,
    RegisterModel,
    RestoreModel,
    SetModelStage,
    TagModel,
    TrainedBy,
)
from trackside.contracts.envelope.message import Message
from trackside.contracts.tasks.artifacts import ArtifactReference

MODEL = ModelSpec(description="handwritten digits", tags=["images"], labels={"owner": "vision"})
VERSION = ModelVersionSpec(
    artifact=ArtifactReference(
        uri=f"store:sha256/{'5c' * 32}",
        sha256="5c" * 32,
        size_bytes=5_120,
        media_type="application/octet-stream",
        source="digits-1/digits-1.7/weights@1",
        credential="models",
    ),
    framework="torch 2.5",
    format="safetensors",
    devices=["cpu", "cuda"],
    tags=["small"],
    labels={"license": "apache-2.0"},
    config={"hidden": 64},
    comment="the best of the search",
    task=TrainedBy(stream="digits-1", task="digits-1.7", attempt=1),
    parameters={"lr": 0.01},
    metrics={"accuracy": 0.97},
    inputs={
        "pixels": ArtifactReference(uri="https://example.org/digits.npz", sha256="a1" * 32, size_bytes=65_536)
    },
)
EXAMPLES: list[Message] = [
    RegisterModel(**dict(MODEL)),
    AddModelVersion(**dict(VERSION)),
    TagModel(version=1, add=["checked"], remove=["small"], labels={"license": None}),
    SetModelStage(version=2, stage="production"),
    ArchiveModel(reason="replaced by faces"),
    RestoreModel(),
    ModelRegistered(command_id="c-1", model=MODEL),
    ModelVersionAdded(command_id="c-2", version=1, model=VERSION),
    ModelTagged(
        command_id="c-3", change=1, version=1, added=["checked"], removed=["small"], labels={"license": None}
    ),
    ModelStageSet(command_id="c-4", change=2, version=2, stage="production", replaces=1),
    ModelArchived(command_id="c-5", change=3, reason="replaced by faces"),
    ModelRestored(command_id="c-6", change=4),
]
