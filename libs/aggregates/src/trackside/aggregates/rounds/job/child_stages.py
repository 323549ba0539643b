"""Stages that are a search or a run of a pipeline: how they get samples and models. Pure."""

from collections.abc import Mapping

from trackside.aggregates.rounds.job.job_spec import StageName, StageSpec
from trackside.contracts.envelope.message import Json
from trackside.contracts.tasks.artifacts import STORED, ArtifactReference

RESERVED = "round"
"""The parameter of a stage that says of which round it is."""
MODELS: Mapping[StageName, tuple[str, ...]] = {"train": ("model",), "eval": ("trained", "deployed")}
"""The models that a stage gets, by their names among its inputs."""
_ANY = ArtifactReference(uri=f"{STORED}{'0' * 64}", sha256="0" * 64, size_bytes=0)


def child_body(stage: StageSpec, inputs: Mapping[str, ArtifactReference], about: Json) -> Json:
    """Returns the body of the command that begins the child, with its samples and models.

    A search has them as inputs. A pipeline has those as parameters that it declares, and so it has `about`,
    which says of which round they are.
    """
    body = dict(stage.spec or {})
    given: Json = {name: each.model_dump(mode="json") for name, each in inputs.items()}
    if "steps" in body:
        body = {"pipeline": body}
    pipeline = body.get("pipeline")
    if not isinstance(pipeline, dict):
        return {**body, "inputs": {**(body.get("inputs") or {}), **given}}
    declared = pipeline.get("parameters") or {}
    own = {name: value for name, value in {**given, RESERVED: about}.items() if name in declared}
    return {**body, "parameters": {**(body.get("parameters") or {}), **own}}


def first_body(stage: StageSpec, name: StageName, job_id: str) -> Json:
    """Returns such a body as it may be in a first round, to be checked when the job is defined."""
    inputs = {**stage.inputs, **dict.fromkeys(("samples", *MODELS[name]), _ANY)}
    return child_body(stage, inputs, {"job": job_id, "number": 1, "stage": name, "lines": 0})
