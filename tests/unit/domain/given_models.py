"""A model as tests tell of it."""

from typing import Any

from tests.unit.domain.given import Told, accepted, received
from trackside.aggregates.model.messages import (
    ModelRegistered,
    ModelSpec,
    ModelStageSet,
    ModelTagged,
    ModelVersionAdded,
    ModelVersionSpec,
)
from trackside.contracts.tasks.artifacts import STORED


def version_spec(number: int = 1, **more: Any) -> ModelVersionSpec:
    """Returns what is known of a version, whose bytes differ from those of any other number."""
    digest = f"{number:064x}"
    artifact = {"uri": f"{STORED}{digest}", "sha256": digest, "size_bytes": 5_120}
    return ModelVersionSpec.model_validate({"artifact": artifact, "format": "safetensors", **more})


def added(number: int = 1, **more: Any) -> ModelVersionAdded:
    return ModelVersionAdded(command_id="c-2", version=number, model=version_spec(number, **more))


def staged(change: int, version: int, stage: Any, replaces: int | None = None) -> ModelStageSet:
    return ModelStageSet(command_id="c-3", change=change, version=version, stage=stage, replaces=replaces)


def tagged(change: int, version: int | None = None, **more: Any) -> ModelTagged:
    return ModelTagged.model_validate({"command_id": "c-4", "change": change, "version": version, **more})


def registered(versions: int = 0) -> Told:
    told = Told()
    told.tell(received())
    told.tell(accepted(), ModelRegistered(command_id="c-1", model=ModelSpec()))
    for number in range(1, versions + 1):
        told.tell(added(number))
    return told
