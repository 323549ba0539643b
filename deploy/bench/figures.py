"""What a figure is: a value, the ceiling measured beside it, and the floor and aim of docs/performance."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


class MissingError(Exception):
    """Something that was put in did not come out: a trial, an event, a row or an answer."""


@dataclass(frozen=True, slots=True)
class Goal:
    """Floor and aim; `at_most`: smaller is better; `ratio`: a part of what is beside it, 0 to 1."""

    floor: float
    aim: float
    at_most: bool = False
    ratio: bool = False

    def reached(self, value: float) -> str:
        """Says what a value reaches."""
        if self.at_most:
            return "aim" if value <= self.aim else "floor" if value <= self.floor else "below"
        return "aim" if value >= self.aim else "floor" if value >= self.floor else "below"


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table; `beside` is what was measured next to it in the same run, in the same unit."""

    number: str
    what: str
    value: float
    unit: str
    beside: float | None = None
    beside_what: str = ""
    goal: Goal | None = None

    @property
    def ratio(self) -> float | None:
        """The value as a part or a multiple of what is beside it."""
        return None if not self.beside else self.value / self.beside

    @property
    def reached(self) -> str:
        """What it reaches: aim, floor, below; nothing where no goal is set."""
        if self.goal is None:
            return ""
        value = self.ratio if self.goal.ratio else self.value
        return "" if value is None else self.goal.reached(value)

    def as_json(self) -> dict[str, Any]:
        """Gives the figure for programs."""
        goal = None if self.goal is None else {"floor": self.goal.floor, "aim": self.goal.aim}
        return {
            "number": self.number,
            "what": self.what,
            "value": self.value,
            "unit": self.unit,
            "beside": self.beside,
            "beside_what": self.beside_what,
            "ratio": self.ratio,
            "goal": goal,
            "reached": self.reached,
        }


@dataclass(slots=True)
class Findings:
    """What a part of the run found: figures, what was counted, and details for those who look closer."""

    figures: list[Figure] = field(default_factory=list)
    counted: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)


def percentile(values: Sequence[float], percent: float) -> float:
    """Gives a percentile by nearest rank; raises MissingError if there are no values."""
    if not values:
        raise MissingError("no value was measured")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(percent / 100 * len(ordered)) - 1))]


def equal(what: str, found: int, expected: int) -> str:
    """Gives the line of a count; raises MissingError if it isn't what was put in."""
    if found != expected:
        raise MissingError(f"{what}: {found:,} found, {expected:,} expected")
    return f"{found:,} {what}"
