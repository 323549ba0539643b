"""Conditions over jobs as a tree: names, values, and what is asked of them. Pure.

`at` is the place of a name or value in the text: its first character, counted from 1.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal, TypeAlias

from trackside.projections.summaries.errors import SummaryReadRefused

Operator: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">="]
Statistic: TypeAlias = Literal[
    "last", "min", "max", "mean", "count", "first_step", "last_step", "non_finite"
]  # fmt: skip
Literals: TypeAlias = Decimal | str | bool
"""A value in a condition: a number, exactly as it is written; a text; true or false."""


class SearchRefused(SummaryReadRefused):
    """A search that can't be answered; its codes are the keys of `JOB_SEARCH_CODES`.

    `at` is the place in a condition, counted from 1, or None if it is not a place that is wrong.
    """

    def __init__(self, code: str, message: str, *, path: str = "where", at: int | None = None) -> None:
        super().__init__(code, path, message if at is None else f"column {at}: {message}")
        self.at = at


@dataclass(frozen=True, slots=True)
class FieldName:
    """A field that every job has, such as `state`."""

    name: str
    at: int = field(default=1, compare=False)


@dataclass(frozen=True, slots=True)
class ParameterPath:
    """A parameter: `params.a.b` is value b of object a, or the parameter that is called "a.b"."""

    path: tuple[str, ...]
    at: int = field(default=1, compare=False)


@dataclass(frozen=True, slots=True)
class MetricName:
    """A statistic of the newest session of a metric: `metrics."train/loss".min`."""

    tag: str
    statistic: Statistic
    at: int = field(default=1, compare=False)


Name: TypeAlias = FieldName | ParameterPath | MetricName


@dataclass(frozen=True, slots=True)
class GivenValue:
    """A value in a condition."""

    value: Literals
    at: int = field(default=1, compare=False)


@dataclass(frozen=True, slots=True)
class Compared:
    """`name operator value`."""

    name: Name
    operator: Operator
    value: GivenValue


@dataclass(frozen=True, slots=True)
class InList:
    """`name in (...)`."""

    name: Name
    values: tuple[GivenValue, ...]


@dataclass(frozen=True, slots=True)
class Contains:
    """`name contains text`: a text has this one in it, upper and lower case distinguished."""

    name: Name
    value: GivenValue


@dataclass(frozen=True, slots=True)
class Missing:
    """`name is null`: the job doesn't have it. The one test that is never unknown."""

    name: Name


@dataclass(frozen=True, slots=True)
class Negated:
    """`not condition`; unknown if the condition is."""

    condition: "JobCondition"


@dataclass(frozen=True, slots=True)
class AllOf:
    """`a and b`: false if one is false, else unknown if one is."""

    conditions: tuple["JobCondition", ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """`a or b`: true if one is true, else unknown if one is."""

    conditions: tuple["JobCondition", ...]


JobTest: TypeAlias = Compared | InList | Contains | Missing
JobCondition: TypeAlias = JobTest | Negated | AllOf | AnyOf


def parts_of(condition: JobCondition) -> Iterator[tuple[JobCondition, int]]:
    """Yields all conditions within one, with their levels: the outermost one has level 1."""
    waiting: list[tuple[JobCondition, int]] = [(condition, 1)]
    while waiting:
        part, level = waiting.pop()
        yield part, level
        if isinstance(part, Negated):
            waiting.append((part.condition, level + 1))
        elif isinstance(part, AllOf | AnyOf):
            waiting.extend((inner, level + 1) for inner in part.conditions)


def tests_of(condition: JobCondition) -> Iterator[JobTest]:
    """Yields the tests of a condition."""
    for part, _ in parts_of(condition):
        if not isinstance(part, Negated | AllOf | AnyOf):
            yield part
