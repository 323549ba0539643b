"""The names and options that a tuner or an assessor may have, checked before any search starts."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from trackside.contracts.ids import IDENTIFIER_RULE, is_identifier
from trackside.contracts.refusals import nearest

Fault = tuple[str, str]
_LARGEST = 1e300


class OptionType(Protocol):
    """What the value of an option may be; its text completes "must be"."""

    def accepts(self, value: object) -> bool:
        """Says whether a value fits."""
        ...


@dataclass(frozen=True)
class Integer:
    """An option that is a whole number from `least` to `most`, both included."""

    least: int
    most: int = 1_000_000

    def accepts(self, value: object) -> bool:
        """Says whether a value fits; booleans are not numbers here."""
        return isinstance(value, int) and not isinstance(value, bool) and self.least <= value <= self.most

    def __str__(self) -> str:
        return f"a whole number from {self.least} to {self.most}"


@dataclass(frozen=True)
class Boolean:
    """An option that is true or false."""

    def accepts(self, value: object) -> bool:
        """Says whether a value is a boolean."""
        return isinstance(value, bool)

    def __str__(self) -> str:
        return "true or false"


@dataclass(frozen=True)
class Fraction:
    """An option that is a number from 0 to 1, both included."""

    def accepts(self, value: object) -> bool:
        """Says whether a value fits; booleans are not numbers here."""
        return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1

    def __str__(self) -> str:
        return "a number from 0 to 1"


@dataclass(frozen=True)
class Number:
    """An option that is a finite number from `least` to `most`, both included."""

    least: float = -math.inf
    most: float = math.inf

    def accepts(self, value: object) -> bool:
        """Says whether a value fits; booleans are not numbers here."""
        if not isinstance(value, int | float) or isinstance(value, bool) or abs(value) > _LARGEST:
            return False
        return math.isfinite(value) and self.least <= value <= self.most

    def __str__(self) -> str:
        if self.least == -math.inf:
            return "a number"
        return f"a number from {self.least:g}" + ("" if self.most == math.inf else f" to {self.most:g}")


@dataclass(frozen=True)
class OneOf:
    """An option that is one of some words."""

    words: tuple[str, ...]

    def accepts(self, value: object) -> bool:
        """Says whether a value is one of the words."""
        return isinstance(value, str) and value in self.words

    def __str__(self) -> str:
        return f"one of {', '.join(self.words)}"


@dataclass(frozen=True)
class Either:
    """An option that fits one of two rules."""

    one: OptionType
    other: OptionType

    def accepts(self, value: object) -> bool:
        """Says whether a value fits one of them."""
        return self.one.accepts(value) or self.other.accepts(value)

    def __str__(self) -> str:
        return f"{self.one} or {self.other}"


@dataclass(frozen=True)
class WrappedAssessor:
    """An option that is an assessor itself; whether its name and options are right is asked elsewhere."""

    def accepts(self, value: object) -> bool:
        """Says whether a value is an object with a name, options or both."""
        return isinstance(value, Mapping) and {"name"} <= value.keys() <= {"name", "options"}

    def __str__(self) -> str:
        return "an object with name and options"


@dataclass(frozen=True)
class ParameterSets:
    """An option that is a list of parameter sets; whether they fit the space is asked elsewhere."""

    most: int = 10_000

    def accepts(self, value: object) -> bool:
        """Says whether a value is a list of objects, neither empty nor too long."""
        return (
            isinstance(value, list)
            and 0 < len(value) <= self.most
            and all(isinstance(one, dict) for one in value)
        )

    def __str__(self) -> str:
        return f"a list of 1 to {self.most:,} objects, each with a value for every parameter"


OptionTypes = Mapping[str, OptionType]


def choice_fault(
    place: str,
    chosen: Mapping[str, object],
    known: Mapping[str, OptionTypes],
    also: Collection[str] = (),
    called: str = "",
) -> Fault | None:
    """Finds what is wrong with `{name, options}` of a tuner or assessor: JSON path and message.

    `place` is where it stands below the root, such as "tuner"; `called` is what it is, if that differs.
    `known` maps each name to the options it may have; `also` are names to tell about beside these.
    """
    kind = called or place
    name = chosen.get("name")
    if not isinstance(name, str) or name not in known:
        names = sorted({*known, *also})
        hint = nearest(name, names) if isinstance(name, str) else ""
        return f"$.{place}.name", f"unknown {kind} {name!r}; expected one of {', '.join(names)}{hint}"
    options = chosen.get("options") or {}
    if not isinstance(options, Mapping):
        return f"$.{place}.options", f"options of a {kind} are an object, got {type(options).__name__}"
    for option, value in options.items():
        fault = _option_fault(kind, name, str(option), value, known[name])
        if fault:
            return f"$.{place}.options.{option}", fault
    return None


def _option_fault(kind: str, name: str, option: str, value: object, allowed: OptionTypes) -> str:
    rule = allowed.get(option)
    if rule is None:
        expected = f"expected {', '.join(sorted(allowed))}" if allowed else f"{name} takes none"
        return f"unknown option {option!r} of {kind} {name}; {expected}{nearest(option, allowed)}"
    if not rule.accepts(value):
        return f"option {option!r} of {kind} {name} must be {rule}, got {_shown(value)}"
    return ""


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def remote_name_fault(path: str, name: object) -> Fault | None:
    """Says what is wrong with the name of a tuner or an assessor that is a process elsewhere."""
    if isinstance(name, str) and is_identifier(name):
        return None
    return f"{path}.name", f"expected the name that a process answers to, {IDENTIFIER_RULE}"
