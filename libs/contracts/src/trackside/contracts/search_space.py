"""Search spaces: which values a tuner may suggest for each parameter."""

import math
from typing import Annotated, Literal

from pydantic import BaseModel as _Model
from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

Scalar = bool | int | float | str | None


class _Parameter(_Model):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _refuse(reason: str) -> PydanticCustomError:
    return PydanticCustomError("bad_search_space", "{reason}", {"reason": reason})


Finite = Annotated[float, Field(allow_inf_nan=False)]


class Choice(_Parameter):
    """One of a list of values."""

    type: Literal["choice"]
    values: list[Scalar] = Field(max_length=10_000)

    @model_validator(mode="after")
    def _some_values(self) -> "Choice":
        if not self.values:
            raise _refuse("a choice needs at least one value")
        return self


class _Range(_Parameter):
    low: Finite
    high: Finite

    @model_validator(mode="after")
    def _in_order(self) -> "_Range":
        if self.low > self.high:
            raise _refuse(f"low {self.low} is above high {self.high}")
        if not math.isfinite(self.high - self.low):
            raise _refuse(f"from low {self.low} to high {self.high} is more than a number can hold")
        return self


class Uniform(_Range):
    """A number between low and high, both included."""

    type: Literal["uniform"]


class LogUniform(_Range):
    """A number between low and high whose logarithm is uniform."""

    type: Literal["loguniform"]

    @model_validator(mode="after")
    def _above_zero(self) -> "LogUniform":
        if self.low <= 0:
            raise _refuse(f"a logarithmic scale needs low above 0, got {self.low}")
        return self


class QUniform(_Range):
    """A uniform number rounded to multiples of step, then clipped to low and high."""

    type: Literal["quniform"]
    step: Finite

    @model_validator(mode="after")
    def _positive_step(self) -> "QUniform":
        if self.step <= 0:
            raise _refuse(f"step must be above 0, got {self.step}")
        if not math.isfinite(self.high / self.step - self.low / self.step):
            raise _refuse(f"step {self.step} is too small for low {self.low} and high {self.high}")
        return self


class RandInt(_Parameter):
    """A whole number from low up to, but without, high."""

    type: Literal["randint"]
    low: int = Field(ge=-(2**53), le=2**53)
    high: int = Field(ge=-(2**53), le=2**53)

    @model_validator(mode="after")
    def _not_empty(self) -> "RandInt":
        if self.low >= self.high:
            raise _refuse(f"low {self.low} must be below high {self.high}: high is excluded")
        return self


Parameter = Annotated[Choice | Uniform | LogUniform | QUniform | RandInt, Field(discriminator="type")]
Space = dict[str, Parameter]


def number(value: float | None) -> float | None:
    """Gives a value as JSON can hold it: None for what isn't finite."""
    return value if value is not None and math.isfinite(value) else None
