"""The definition of a job of incremental learning: its dataset, models, stages and services."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from trackside.aggregates.rounds.job.trigger_messages import TriggerRule
from trackside.contracts.envelope.ids import Identifier
from trackside.contracts.envelope.message import Json, is_absent
from trackside.contracts.tasks.artifacts import MAX_MODEL_VERSIONS, Inputs, Url
from trackside.contracts.tasks.resources import Needs, Timeout

MAX_SERVICES = 100
"""How many inference services a job may have, replicas counted."""
MAX_EVAL_VERSIONS = 100
DEFAULT_CHECK_PERIOD_S = 60.0

StageName = Literal["train", "eval", "deploy"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ModelVersionName(_Part):
    """A version of a model; in a file `MODEL@VERSION`."""

    model: Identifier
    version: int = Field(ge=1, le=MAX_MODEL_VERSIONS)


def _from_text(given: object) -> object:
    if isinstance(given, str):
        model, at, version = given.rpartition("@")
        if not at or not version.isdecimal():
            raise PydanticCustomError("bad_model_version", "expected a version of a model, such as digits@1")
        return {"model": model, "version": int(version)}
    return given


VersionName = Annotated[
    ModelVersionName, BeforeValidator(_from_text, json_schema_input_type=str | ModelVersionName)
]


class JobDataset(_Part):
    """The dataset of a job, and how its samples are divided.

    Of all samples the share `train_prob` is for training, the rest for evaluation: exactly, however many
    arrive at once. What arrives between two rounds is a version of the latter; an evaluation has the newest
    `eval_versions` of them.
    """

    name: Identifier
    train_prob: float = Field(ge=0, le=1, allow_inf_nan=False)
    eval_versions: int = Field(default=5, ge=1, le=MAX_EVAL_VERSIONS)
    begin: int = Field(default=0, ge=0, le=2**53)
    """The first sample that the job takes."""


class JobOutput(_Part):
    """The folder that manifests of samples are written into, and its credential."""

    url: Url
    credential: Identifier | None = Field(default=None, exclude_if=is_absent)


class StageSpec(_Part):
    """What a stage runs: a task, or a child (`kind` and `spec`), such as a search; and when.

    `check_period_s` is the least time between two evaluations of the trigger that may begin the stage.
    """

    task_type: str | None = Field(default=None, min_length=1, max_length=200, exclude_if=is_absent)
    kind: str | None = Field(default=None, min_length=1, max_length=200, exclude_if=is_absent)
    spec: Json | None = Field(default=None, exclude_if=is_absent)
    parameters: Json = Field(default={}, exclude_if=is_absent)
    inputs: Inputs = Field(default={}, exclude_if=is_absent)
    needs: Needs = Field(default=Needs(), exclude_if=Needs().__eq__)
    trigger: TriggerRule = None
    check_period_s: float = Field(default=DEFAULT_CHECK_PERIOD_S, ge=0, le=86_400, allow_inf_nan=False)


class EvalSpec(StageSpec):
    """The stage that compares the trained model with the one that is live, or first with `initial_model`."""

    initial_model: VersionName | None = Field(default=None, exclude_if=is_absent)
    check_period_s: float = Field(default=0.0, ge=0, le=86_400, allow_inf_nan=False)


class HardExampleMining(_Part):
    """How an inference service finds hard examples: a miner by its name, and its parameters."""

    miner: str = Field(min_length=1, max_length=200)
    parameters: Json = Field(default={}, exclude_if=is_absent)
    append_to: Identifier | None = Field(default=None, exclude_if=is_absent)
    """The dataset that they are appended to; without one they are only stored."""


class InferenceSpec(_Part):
    """An inference service of a job, of which there are `replicas`."""

    name: Identifier
    task_type: str = Field(min_length=1, max_length=200)
    replicas: int = Field(default=1, ge=1, le=MAX_SERVICES)
    parameters: Json = Field(default={}, exclude_if=is_absent)
    inputs: Inputs = Field(default={}, exclude_if=is_absent)
    needs: Needs = Field(default=Needs(), exclude_if=Needs().__eq__)
    hard_examples: HardExampleMining | None = Field(default=None, exclude_if=is_absent)


class GateRule(_Part):
    """A person decides, too, within `timeout_s`; after that the model isn't deployed."""

    timeout_s: Timeout | None = Field(default=None, exclude_if=is_absent)
    message: str = Field(default="", max_length=10_000, exclude_if=is_absent)


class ConfigFile(_Part):
    """The `model_config.json` of services that read files: in a folder `JOB` below `url`."""

    url: Url
    credential: Identifier | None = Field(default=None, exclude_if=is_absent)


class DeploySpec(_Part):
    """How a trained model gets into use: trigger over the metrics of both models, gate, copy, services.

    `copy_to` is the file that it is copied over (a cold update), `config` where `model_config.json` is
    written. A service confirms within `confirm_s`, or is tried again, `tries` times in all.
    `check_period_s` is the least time between two decisions to deploy; a command does not wait for it.
    """

    trigger: TriggerRule = None
    check_period_s: float = Field(default=0.0, ge=0, le=86_400, allow_inf_nan=False)
    gate: GateRule | None = Field(default=None, exclude_if=is_absent)
    copy_to: JobOutput | None = Field(default=None, exclude_if=is_absent)
    config: ConfigFile | None = Field(default=None, exclude_if=is_absent)
    services: Annotated[list[InferenceSpec], Field(max_length=MAX_SERVICES, exclude_if=is_absent)] = []
    confirm_s: Timeout = 60.0
    tries: int = Field(default=3, ge=1, le=100)


class JobSpec(_Part):
    """Everything that defines a job. Its trained models become versions of `model`.

    `initial_model` is the base of the first round, and live until another one is. The base of a later one is
    what was trained last, or what is deployed, as `start_from` says. A trained model has the format of the
    initial one, and runs on `devices`, such as `cpu`, if they are given.
    """

    name: str = Field(default="", max_length=200, exclude_if=is_absent)
    dataset: JobDataset
    model: Identifier
    initial_model: VersionName
    devices: list[Identifier] = Field(default=[], max_length=20, exclude_if=is_absent)
    start_from: Literal["trained", "deployed"] = "trained"
    train: StageSpec
    eval: EvalSpec
    deploy: DeploySpec
    output: JobOutput
    seed: int = Field(default=0, ge=0, le=2**53)
