"""The names and options that a tuner or an assessor may have, checked before any search starts."""

from collections.abc import Mapping
from dataclasses import dataclass

from trackside.contracts.refusals import nearest

Fault = tuple[str, str]


@dataclass(frozen=True)
class Count:
    """An option that is a whole number from `least` to `most`, both included."""

    least: int
    most: int = 1_000_000

    def accepts(self, value: object) -> bool:
        """Says whether a value fits; booleans are not numbers here."""
        return isinstance(value, int) and not isinstance(value, bool) and self.least <= value <= self.most

    def __str__(self) -> str:
        return f"a whole number from {self.least} to {self.most}"


@dataclass(frozen=True)
class Flag:
    """An option that is true or false."""

    def accepts(self, value: object) -> bool:
        """Says whether a value is a boolean."""
        return isinstance(value, bool)

    def __str__(self) -> str:
        return "true or false"


Allowed = Mapping[str, Count | Flag]


def choice_fault(kind: str, chosen: Mapping[str, object], known: Mapping[str, Allowed]) -> Fault | None:
    """Finds what is wrong with `{name, options}` of a tuner or assessor: JSON path and message.

    `kind` is "tuner" or "assessor"; `known` maps each name to the options it may have.
    """
    name = chosen.get("name")
    if not isinstance(name, str) or name not in known:
        hint = nearest(name, known) if isinstance(name, str) else ""
        return f"$.{kind}.name", f"unknown {kind} {name!r}; expected one of {', '.join(sorted(known))}{hint}"
    options = chosen.get("options") or {}
    if not isinstance(options, Mapping):
        return f"$.{kind}.options", f"options of a {kind} are an object, got {type(options).__name__}"
    for option, value in options.items():
        fault = _option_fault(kind, name, str(option), value, known[name])
        if fault:
            return fault
    return None


def _option_fault(kind: str, name: str, option: str, value: object, allowed: Allowed) -> Fault | None:
    path = f"$.{kind}.options.{option}"
    rule = allowed.get(option)
    if rule is None:
        expected = f"expected {', '.join(sorted(allowed))}" if allowed else f"{name} takes none"
        return path, f"unknown option {option!r} of {kind} {name}; {expected}{nearest(option, allowed)}"
    if not rule.accepts(value):
        return path, f"option {option!r} of {kind} {name} must be {rule}, got {value!r}"
    return None
