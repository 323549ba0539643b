"""What an inference service receives: its part of the parameters, and the bodies of instructions."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trackside.contracts.envelope.refusals import problem_of
from trackside.contracts.tasks.artifacts import ArtifactReference

WINDOW_S = 30.0
"""How long a window is, after which counts are reported."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class ServedVersion(_Part):
    """A version of a model: its format, and the artifact that has its bytes."""

    model: str = ""
    version: int = 0
    format: str = "file"
    artifact: ArtifactReference | None = None

    @property
    def sha256(self) -> str:
        """The digest of the artifact; empty if it is not known."""
        return "" if self.artifact is None else self.artifact.sha256


class AppendTarget(_Part):
    """The file of a dataset on this host, which hard examples are appended to, and its format."""

    url: str = Field(min_length=1)
    format: str = Field(default="txt", pattern="^(txt|csv|jsonl)$")


class MinerChoice(_Part):
    """The miner of a service, its parameters, and where hard examples go."""

    miner: str = Field(min_length=1)
    parameters: dict[str, Any] = {}
    append_to: AppendTarget | None = None


class ServiceSettings(_Part):
    """What the dispatcher says of a service, in the parameter `service`."""

    job: str = ""
    name: str = ""
    replica: int = 1
    update: int = 0
    model: ServedVersion = ServedVersion()
    hard_examples: MinerChoice | None = None
    window_s: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] = WINDOW_S
    port: Annotated[int, Field(ge=0, le=65_535)] = 0


class ServedUpdate(_Part):
    """The body of an instruction: the version that is to be served from now on."""

    update: int = Field(ge=0)
    model: ServedVersion

    def reference(self) -> dict[str, Any]:
        """Returns the reference to the artifact, as `trial.fetch` takes it."""
        return {} if self.model.artifact is None else self.model.artifact.model_dump(mode="json")


def read_settings(parameters: Mapping[str, Any]) -> ServiceSettings:
    """Returns the parameter `service`, with defaults without one. Raises ValueError that names the place."""
    given = parameters.get("service") or {}
    try:
        return ServiceSettings.model_validate(given)
    except ValidationError as error:
        raise ValueError(f"parameter service: {_first(error, given)}") from None


def read_update(body: Mapping[str, Any]) -> ServedUpdate:
    """Returns the body of an instruction. Raises ValueError that names the place."""
    try:
        found = ServedUpdate.model_validate(dict(body))
    except ValidationError as error:
        raise ValueError(f"instruction: {_first(error, dict(body))}") from None
    if found.model.artifact is None:
        raise ValueError("instruction: $.model.artifact: expected a reference with uri, sha256, size_bytes")
    return found


def plain_value(value: Any) -> Any:
    """Returns a value of numpy or torch as JSON has it. Raises TypeError for one that JSON can't hold."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON")


def _first(error: ValidationError, given: Any) -> str:
    problem = problem_of(error, (), given if isinstance(given, dict) else {})
    return f"{problem.path}: {problem.message}"
