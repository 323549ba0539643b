"""Checks of the names and options of tuners and assessors, made before a search starts."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from trackside.contracts.envelope.ids import IDENTIFIER_RULE, is_identifier
from trackside.contracts.envelope.nni_names import nni_hint
from trackside.contracts.envelope.refusals import nearest

Fault = tuple[str, str]
_LARGEST = 1e300


class OptionType(Protocol):
    """The type of an option's value; its text completes "must be"."""

    def accepts(self, value: object) -> bool:
        """Returns whether a value is of this type."""
        ...


@dataclass(frozen=True)
class Integer:
    """An option that is an integer from `least` to `most`, both included."""

    least: int
    most: int = 1_000_000

    def accepts(self, value: object) -> bool:
        """Returns whether a value is of this type; booleans are not numbers."""
        return isinstance(value, int) and not isinstance(value, bool) and self.least <= value <= self.most

    def __str__(self) -> str:
        return f"an integer from {self.least} to {self.most}"


@dataclass(frozen=True)
class Boolean:
    """An option that is true or false."""

    def accepts(self, value: object) -> bool:
        """Returns whether a value is a boolean."""
        return isinstance(value, bool)

    def __str__(self) -> str:
        return "true or false"


@dataclass(frozen=True)
class Fraction:
    """An option that is a number from 0 to 1, both included."""

    def accepts(self, value: object) -> bool:
        """Returns whether a value is of this type; booleans are not numbers."""
        return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1

    def __str__(self) -> str:
        return "a number from 0 to 1"


@dataclass(frozen=True)
class Number:
    """An option that is a finite number from `least` to `most`, both included."""

    least: float = -math.inf
    most: float = math.inf

    def accepts(self, value: object) -> bool:
        """Returns whether a value is of this type; booleans are not numbers."""
        if not isinstance(value, int | float) or isinstance(value, bool) or abs(value) > _LARGEST:
            return False
        return math.isfinite(value) and self.least <= value <= self.most

    def __str__(self) -> str:
        if self.least == -math.inf:
            return "a number"
        return f"a number from {self.least:g}" + ("" if self.most == math.inf else f" to {self.most:g}")


@dataclass(frozen=True)
class OneOf:
    """An option that is one of several strings."""

    values: tuple[str, ...]

    def accepts(self, value: object) -> bool:
        """Returns whether a value is one of the strings."""
        return isinstance(value, str) and value in self.values

    def __str__(self) -> str:
        return f"one of {', '.join(self.values)}"


@dataclass(frozen=True)
class ParameterName:
    """An option that is the name of a parameter."""

    def accepts(self, value: object) -> bool:
        """Returns whether a value is a string that is neither empty nor too long."""
        return isinstance(value, str) and 0 < len(value) <= 200

    def __str__(self) -> str:
        return "the name of a parameter"


@dataclass(frozen=True)
class Either:
    """An option that is of one of two types."""

    one: OptionType
    other: OptionType

    def accepts(self, value: object) -> bool:
        """Returns whether a value is of one of them."""
        return self.one.accepts(value) or self.other.accepts(value)

    def __str__(self) -> str:
        return f"{self.one} or {self.other}"


@dataclass(frozen=True)
class WrappedAssessor:
    """An option that is an assessor itself; its name and options are checked by `check_assessor`."""

    def accepts(self, value: object) -> bool:
        """Returns whether a value is an object with a name, and options or none."""
        return isinstance(value, Mapping) and {"name"} <= value.keys() <= {"name", "options"}

    def __str__(self) -> str:
        return "an object with name and options"


@dataclass(frozen=True)
class ParameterSets:
    """An option that is a list of parameter sets; `check_tuner` checks that they are in the space."""

    most: int = 10_000

    def accepts(self, value: object) -> bool:
        """Returns whether a value is a list of objects, neither empty nor too long."""
        return (
            isinstance(value, list)
            and 0 < len(value) <= self.most
            and all(isinstance(one, dict) for one in value)
        )

    def __str__(self) -> str:
        return f"a list of 1 to {self.most:,} objects, each with a value for every parameter"


@dataclass(frozen=True)
class Starts(ParameterSets):
    """An option that is a list of how trials start; `promotion_faults` checks what it says of them."""

    def __str__(self) -> str:
        return f"a list of 1 to {self.most:,} objects with from_trial and step_limit, one for each set"


OptionTypes = Mapping[str, OptionType]


def check_options(
    path: str,
    chosen: Mapping[str, object],
    builtin: Mapping[str, OptionTypes],
    plugins: Collection[str] = (),
    kind: str = "",
) -> tuple[list[Fault], Mapping[str, Any] | None]:
    """Returns all that is wrong with `{name, options}` of a tuner or assessor, and its options.

    A wrong option is None there, so that nothing is concluded from its value. If the name is unknown, or the
    options are not an object, there is None instead of them.
    `path` is its place below the root, such as "tuner"; `kind` is what it is, if that differs. `builtin` maps
    each name to the options it may have; `plugins` are further names for the message.
    """
    kind = kind or path
    name = chosen.get("name")
    if not isinstance(name, str) or name not in builtin:
        names = sorted({*builtin, *plugins})
        hint = nearest(name, names) if isinstance(name, str) else ""
        message = f"unknown {kind} {name!r}; expected one of {', '.join(names)}{hint}"
        return [(f"$.{path}.name", message)], None
    options = chosen.get("options") or {}
    if not isinstance(options, Mapping):
        message = f"options of a {kind} are an object, got {type(options).__name__}"
        return [(f"$.{path}.options", message)], None
    found = {
        option: _option_fault(kind, name, str(option), value, builtin[name])
        for option, value in options.items()
    }
    faults = [(f"$.{path}.options.{option}", fault) for option, fault in found.items() if fault]
    return faults, {option: None if found[option] else value for option, value in options.items()}


def _option_fault(kind: str, name: str, option: str, value: object, allowed: OptionTypes) -> str:
    option_type = allowed.get(option)
    if option_type is None:
        expected = f"expected {', '.join(sorted(allowed))}" if allowed else f"{name} takes none"
        hint = nni_hint(option) or f"; {expected}{nearest(option, allowed)}"
        return f"unknown option {option!r} of {kind} {name}{hint}"
    if not option_type.accepts(value):
        return f"option {option!r} of {kind} {name} must be {option_type}, got {_shown(value)}"
    return ""


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def remote_name_faults(path: str, name: object) -> list[Fault]:
    """Returns what is wrong with the name of a remote tuner or assessor."""
    if isinstance(name, str) and is_identifier(name):
        return []
    return [(f"{path}.name", f"expected the name that a process answers to, {IDENTIFIER_RULE}")]
