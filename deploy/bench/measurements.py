"""A figure: a value, a reference measured in the same run, and the floor and aim of docs/performance."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


class MissingError(Exception):
    """A trial, an event, a row or an answer is missing."""


@dataclass(frozen=True, slots=True)
class Goal:
    """Floor and aim; `at_most`: smaller is better; `ratio`: relative to the reference, 0 to 1."""

    floor: float
    aim: float
    at_most: bool = False
    ratio: bool = False

    def reached(self, value: float) -> str:
        """Returns what a value reaches: aim, floor or below."""
        if self.at_most:
            return "aim" if value <= self.aim else "floor" if value <= self.floor else "below"
        return "aim" if value >= self.aim else "floor" if value >= self.floor else "below"


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table; `reference` was measured in the same run, in the same unit."""

    number: str
    what: str
    value: float
    unit: str
    reference: float | None = None
    reference_name: str = ""
    goal: Goal | None = None

    @property
    def ratio(self) -> float | None:
        """The value relative to the reference."""
        return None if not self.reference else self.value / self.reference

    @property
    def reached(self) -> str:
        """What it reaches: aim, floor or below; empty without a goal."""
        if self.goal is None:
            return ""
        value = self.ratio if self.goal.ratio else self.value
        return "" if value is None else self.goal.reached(value)

    def as_json(self) -> dict[str, Any]:
        """Returns the JSON form."""
        goal = None if self.goal is None else {"floor": self.goal.floor, "aim": self.goal.aim}
        return {
            "number": self.number,
            "what": self.what,
            "value": self.value,
            "unit": self.unit,
            "beside": self.reference,
            "beside_what": self.reference_name,
            "ratio": self.ratio,
            "goal": goal,
            "reached": self.reached,
        }


@dataclass(slots=True)
class Measurements:
    """The results of a part of the run: figures, counts, and details for the JSON file."""

    figures: list[Figure] = field(default_factory=list)
    counted: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)


def percentile(values: Sequence[float], percent: float) -> float:
    """Returns a percentile by nearest rank; raises MissingError if there are no values."""
    if not values:
        raise MissingError("no value was measured")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(percent / 100 * len(ordered)) - 1))]


def check_count(what: str, found: int, expected: int) -> str:
    """Returns the line of a count; raises MissingError if it isn't the expected one."""
    if found != expected:
        raise MissingError(f"{what}: {found:,} found, {expected:,} expected")
    return f"{found:,} {what}"
