"""The documents of Sedna that can be converted: IncrementalLearningJob, Dataset, Model (sedna.io/v1alpha1).

A field that is not here has no counterpart: it is kept as an extra one, so that it can be listed.
"""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True, strict=True, alias_generator=to_camel)


def _from_text(given: object) -> object:
    """Reads a number that is written as a text, as Sedna does."""
    if isinstance(given, str):
        try:
            return float(given)
        except ValueError:
            return given
    return given


SednaNumber = Annotated[float, BeforeValidator(_from_text), Field(allow_inf_nan=False)]
SednaName = Annotated[str, Field(min_length=1, max_length=128)]


class SednaMetadata(_Part):
    """The name of a document, and the namespace that it is in."""

    name: SednaName
    namespace: str = ""
    annotations: dict[str, str] | None = None


class SednaTimer(_Part):
    """A time of each day, by the clock of the node."""

    start: str
    end: str


class SednaCondition(_Part):
    """A metric is compared with a threshold."""

    operator: str
    threshold: SednaNumber
    metric: str


class SednaTrigger(_Part):
    """Both of its parts must hold."""

    check_period_seconds: int | None = None
    timer: SednaTimer | None = None
    condition: SednaCondition | None = None


class SednaVariable(_Part):
    """A variable of the environment of a container."""

    name: SednaName
    value: str = ""


class SednaContainer(_Part):
    """What runs in a pod."""

    name: str = ""
    command: list[str] = []
    args: list[str] = []
    env: list[SednaVariable] = []
    resources: dict[str, Any] = {}


class SednaPod(_Part):
    """The containers of a pod; Sedna gives its variables to each."""

    containers: Annotated[list[SednaContainer], Field(min_length=1)]


class SednaTemplate(_Part):
    """The template of a pod."""

    spec: SednaPod


class SednaModelName(_Part):
    """The name of a Model of the same namespace."""

    name: SednaName


class SednaDatasetShare(_Part):
    """The Dataset of a job, and its share for training."""

    name: SednaName
    train_prob: SednaNumber


class SednaTrain(_Part):
    """The stage that trains."""

    template: SednaTemplate
    trigger: SednaTrigger | None = None


class SednaEval(_Part):
    """The stage that evaluates."""

    template: SednaTemplate
    initial_eval_model: SednaModelName | None = None


class SednaDeployedModel(_Part):
    """The Model whose file a trained one is copied over."""

    name: SednaName
    hot_update_enabled: bool = False
    poll_period_seconds: int | None = None


class SednaMinerParameter(_Part):
    """A parameter of a miner of hard examples."""

    key: str
    value: str = ""


class SednaMiner(_Part):
    """A miner of hard examples."""

    name: str
    parameters: list[SednaMinerParameter] = []


class SednaDeploy(_Part):
    """The stage that deploys, and the inference worker."""

    model: SednaDeployedModel
    trigger: SednaTrigger | None = None
    hard_example_mining: SednaMiner | None = None
    template: SednaTemplate


class SednaJobSpec(_Part):
    """What defines a job."""

    dataset: SednaDatasetShare
    initial_model: SednaModelName
    train_spec: SednaTrain
    eval_spec: SednaEval
    deploy_spec: SednaDeploy
    credential_name: str = ""
    output_dir: Annotated[str, Field(min_length=1)]


class SednaDatasetSpec(_Part):
    """Where a dataset is."""

    url: str
    format: str
    credential_name: str = ""


class SednaModelSpec(_Part):
    """Where a model is."""

    url: str
    format: str
    credential_name: str = ""
    devices: list[str] = Field(default=[], alias="device_soc_versions")


class _Document(_Part):
    api_version: str
    kind: str
    metadata: SednaMetadata


class SednaJob(_Document):
    """An IncrementalLearningJob."""

    spec: SednaJobSpec


class SednaDataset(_Document):
    """A Dataset."""

    spec: SednaDatasetSpec


class SednaModel(_Document):
    """A Model."""

    spec: SednaModelSpec


SednaDocument = SednaJob | SednaDataset | SednaModel
KINDS: dict[str, type[SednaJob] | type[SednaDataset] | type[SednaModel]] = {
    "IncrementalLearningJob": SednaJob,
    "Dataset": SednaDataset,
    "Model": SednaModel,
}


FORMATS = {
    **{name: name for name in ("safetensors", "onnx", "npz", "gguf")},
    **dict.fromkeys(("pt", "pth"), "torch"),
}
UNSAFE = ("pkl", "pickle", "joblib")
"""Endings of files that execute code when they are read."""


def format_of(ending: str) -> str:
    """Returns the format that an ending such as `pth` has; `file` for one that isn't known."""
    return FORMATS.get(ending.lstrip(".").lower(), "file")
