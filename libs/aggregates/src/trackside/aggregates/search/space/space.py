"""Search spaces: which values a tuner may suggest for each parameter, in our form and in NNI's.

    ours   {"lr": {"type": "loguniform", "low": 0.0001, "high": 0.1}}
    NNI's  {"lr": {"_type": "loguniform", "_value": [0.0001, 0.1]}}

Both are read wherever a space is; what is written to the log is our form.
"""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    Tag,
    model_validator,
)
from pydantic_core import PydanticCustomError

from trackside.contracts.envelope.secret_references import references_in

Option = JsonValue
"""The value of a tuner's option: a scalar, or a list such as the parameter sets of tuner batch."""

NAME = "_name"
"""The field of a sub-space that has its name."""
_DEFINES = frozenset({"type", "_type", "_value"})
_RANGES = frozenset({"low", "high", "step", "mu", "sigma", "values"})

SIGMAS = 8.0
"""How many standard deviations from its middle a normal parameter must still be a number."""
_LARGEST_EXPONENT = math.log(1e300)


class _Parameter(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _refuse(reason: str) -> PydanticCustomError:
    return PydanticCustomError("bad_search_space", "{reason}", {"reason": reason})


def _no_secret(value: object) -> None:
    """Refuses values that have a reference to a secret: a trial's parameters are compared and shown."""
    if any(references_in(value)):
        raise _refuse(
            "a search space can't have a secret; the task type gets it as a variable: have `environment` of "
            "the catalogue say VARIABLE: {secret: NAME}"
        )


Finite = Annotated[float, Field(allow_inf_nan=False)]


class Branch(BaseModel):
    """A sub-space of a choice: its name, and the parameters that exist only where it is chosen."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, serialize_by_alias=True)
    __pydantic_extra__: "dict[str, Parameter]"
    name: str = Field(alias="_name", min_length=1, max_length=200)

    @model_validator(mode="after")
    def _some_parameters(self) -> "Branch":
        if not self.__pydantic_extra__:
            raise _refuse("a sub-space needs at least one parameter; without one it is a plain object")
        return self


def is_sub_space(value: object) -> bool:
    """Returns whether a value of a choice is a sub-space: an object with `_name` and its parameters.

    What looks like a definition counts, so that a misspelt one is refused instead of taken for a value.
    """
    return (
        isinstance(value, Mapping)
        and NAME in value
        and any(_is_definition(member) for key, member in value.items() if key != NAME)
    )


def _is_definition(member: object) -> bool:
    if not isinstance(member, Mapping):
        return False
    return not _DEFINES.isdisjoint(member) or (bool(member) and member.keys() <= _RANGES)


def _kind_of_value(value: object) -> str:
    # Brackets: a parameter may have any name, and these steps are left out of the paths of errors.
    return "<branch>" if isinstance(value, Branch) or is_sub_space(value) else "<value>"


Value = Annotated[
    Annotated[JsonValue, Tag("<value>")] | Annotated[Branch, Tag("<branch>")], Discriminator(_kind_of_value)
]


class Choice(_Parameter):
    """One of a list of values, which may be any JSON.

    An object with `_name` and definitions of parameters is a sub-space of its own.
    """

    type: Literal["choice"]
    values: list[Value] = Field(max_length=10_000)

    @model_validator(mode="after")
    def _some_values(self) -> "Choice":
        if not self.values:
            raise _refuse("a choice needs at least one value")
        _no_secret([value for value in self.values if not isinstance(value, Branch)])
        names = Counter(value.name for value in self.values if isinstance(value, Branch))
        plain = [value.get(NAME) for value in self.values if isinstance(value, dict)]
        shared = [f"{count} sub-spaces have the _name {name!r}" for name, count in names.items() if count > 1]
        shared += [f"a sub-space and an object have the _name {name!r}" for name in names if name in plain]
        if shared:
            raise _refuse("; ".join(shared))
        return self

    @model_validator(mode="after")
    def _no_nameless_sub_space(self) -> "Choice":
        for index, value in enumerate(self.values):
            if isinstance(value, dict) and NAME not in value and any(map(_is_of_nni, value.values())):
                raise _refuse(
                    f"values[{index}] has definitions of parameters and no _name; with one it is a sub-space"
                )
        return self


def _is_of_nni(member: object) -> bool:
    return isinstance(member, dict) and {"_type", "_value"} <= member.keys()


class Constant(_Parameter):
    """A value that every trial gets as it is; any JSON."""

    type: Literal["constant"]
    value: JsonValue

    @model_validator(mode="after")
    def _no_secret(self) -> "Constant":
        _no_secret([self.value])
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


def _checked_step(step: float, low: float, high: float) -> None:
    if step <= 0:
        raise _refuse(f"step must be above 0, got {step}")
    if not math.isfinite(high / step - low / step):
        raise _refuse(f"step {step} is too small for low {low} and high {high}")


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
        _checked_step(self.step, self.low, self.high)
        return self


class QLogUniform(_Range):
    """A number whose logarithm is uniform, rounded to multiples of step, then clipped to low and high."""

    type: Literal["qloguniform"]
    step: Finite

    @model_validator(mode="after")
    def _sound(self) -> "QLogUniform":
        if self.low <= 0:
            raise _refuse(f"a logarithmic scale needs low above 0, got {self.low}")
        _checked_step(self.step, self.low, self.high)
        return self


class RandInt(_Parameter):
    """An integer from low to high - 1."""

    type: Literal["randint"]
    low: int = Field(ge=-(2**53), le=2**53)
    high: int = Field(ge=-(2**53), le=2**53)

    @model_validator(mode="after")
    def _not_empty(self) -> "RandInt":
        if self.low >= self.high:
            raise _refuse(f"low {self.low} must be below high {self.high}: high is excluded")
        return self


class _Bell(_Parameter):
    mu: Finite
    sigma: Finite

    def _ends(self) -> tuple[float, float]:
        return self.mu - SIGMAS * self.sigma, self.mu + SIGMAS * self.sigma

    @model_validator(mode="after")
    def _holds(self) -> "_Bell":
        if self.sigma <= 0:
            raise _refuse(f"sigma must be above 0, got {self.sigma}")
        low, high = self._ends()
        if not math.isfinite(high - low):
            raise _refuse(f"mu {self.mu} and sigma {self.sigma} are more than a number can hold")
        return self


class _LogBell(_Bell):
    def _ends(self) -> tuple[float, float]:
        low, high = super()._ends()
        return math.exp(min(low, _LARGEST_EXPONENT)), math.exp(high) if high < _LARGEST_EXPONENT else math.inf


class Normal(_Bell):
    """A number from a normal distribution with mean mu and standard deviation sigma."""

    type: Literal["normal"]


class LogNormal(_LogBell):
    """A number whose logarithm has a normal distribution with mean mu and standard deviation sigma."""

    type: Literal["lognormal"]


class QNormal(_Bell):
    """A normal number rounded to multiples of step."""

    type: Literal["qnormal"]
    step: Finite

    @model_validator(mode="after")
    def _positive_step(self) -> "QNormal":
        _checked_step(self.step, *self._ends())
        return self


class QLogNormal(_LogBell):
    """A number whose logarithm is normal, rounded to multiples of step."""

    type: Literal["qlognormal"]
    step: Finite

    @model_validator(mode="after")
    def _positive_step(self) -> "QLogNormal":
        _checked_step(self.step, *self._ends())
        return self


TYPES: Mapping[str, type[BaseModel]] = {
    "choice": Choice,
    "constant": Constant,
    "randint": RandInt,
    "uniform": Uniform,
    "quniform": QUniform,
    "loguniform": LogUniform,
    "qloguniform": QLogUniform,
    "normal": Normal,
    "qnormal": QNormal,
    "lognormal": LogNormal,
    "qlognormal": QLogNormal,
}
"""Every type of a parameter, by the name that it has on the wire and in NNI."""

NNI_FIELDS: Mapping[str, tuple[str, ...]] = {
    "randint": ("low", "high"),
    "uniform": ("low", "high"),
    "quniform": ("low", "high", "step"),
    "loguniform": ("low", "high"),
    "qloguniform": ("low", "high", "step"),
    "normal": ("mu", "sigma"),
    "qnormal": ("mu", "sigma", "step"),
    "lognormal": ("mu", "sigma"),
    "qlognormal": ("mu", "sigma", "step"),
}
"""What the numbers in NNI's `_value` are, in their order."""


class NniParameter(BaseModel):
    """A parameter as NNI's users write it: a type, and the list of its values or of its numbers."""

    model_config = ConfigDict(extra="forbid")
    type: Literal[
        "choice", "randint", "uniform", "quniform", "loguniform", "qloguniform", "normal", "qnormal",
        "lognormal", "qlognormal",
    ] = Field(alias="_type")  # fmt: skip
    value: list[JsonValue] = Field(alias="_value")


def from_nni(parameter: Any) -> Any:
    """Rewrites a parameter in NNI's form into ours; anything else is given back as it is.

    Raises PydanticCustomError with code bad_search_space, which a validation puts at the parameter's path.
    """
    if not isinstance(parameter, dict) or not {"_type", "_value"} & parameter.keys():
        return parameter
    if parameter.keys() != {"_type", "_value"}:
        raise _refuse(
            "a parameter in NNI's form has the fields _type and _value, this one has "
            + ", ".join(sorted(map(str, parameter)))
        )
    kind, value = parameter["_type"], parameter["_value"]
    if kind == "choice":
        return {"type": kind, "values": value}
    fields = NNI_FIELDS.get(kind) if isinstance(kind, str) else None
    if fields is None:
        raise _refuse(f"unknown _type {kind!r}; expected one of: choice, {', '.join(NNI_FIELDS)}")
    if not isinstance(value, list) or len(value) != len(fields):
        raise _refuse(f"_value of {kind} is a list of {len(fields)} numbers: [{', '.join(fields)}]")
    return {"type": kind, **dict(zip(fields, value, strict=True))}


_Ours = Annotated[
    Choice
    | Constant
    | RandInt
    | Uniform
    | QUniform
    | LogUniform
    | QLogUniform
    | Normal
    | QNormal
    | LogNormal
    | QLogNormal,
    Field(discriminator="type"),
]
Parameter = Annotated[_Ours, BeforeValidator(from_nni, json_schema_input_type=_Ours | NniParameter)]
Space = dict[str, Parameter]

Branch.model_rebuild()
Choice.model_rebuild()


def number(value: float | None) -> float | None:
    """Returns a value as JSON can hold it: None for what isn't finite."""
    return value if value is not None and math.isfinite(value) else None
