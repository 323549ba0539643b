"""Several objectives of one search: their values in what a trial said, and the trials that none beats."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from trackside.aggregates.search.messages import Direction, SearchSpec
from trackside.contracts.tasks.tasks import Figure

DEFAULT = "default"
"""The name of the plain number, and of the one objective of a search that names none."""


class Judged(Protocol):
    """What is compared: a value for each objective, none where it said none."""

    @property
    def values(self) -> Sequence[Figure | None]:
        """The values in the order of the objectives."""
        ...


def names_of(spec: SearchSpec) -> list[str]:
    """Returns the names of a search's objectives in their order."""
    return [objective.name for objective in spec.objectives] or [DEFAULT]


def directions_of(spec: SearchSpec) -> list[Direction]:
    """Returns the directions of a search's objectives in their order."""
    return [objective.direction for objective in spec.objectives] or [spec.direction]


def values_of(
    names: Sequence[str], deciding: Figure | None, others: Mapping[str, Figure]
) -> list[Figure | None]:
    """Returns the value of each objective: the number of its name, else for the first the plain number."""
    plain = [deciding, *[None] * (len(names) - 1)]
    return [
        others.get(name, deciding if name == DEFAULT else first)
        for name, first in zip(names, plain, strict=True)
    ]


def numbers(values: Sequence[Figure | None]) -> list[float] | None:
    """Returns the values if each of them is a finite number, else None."""
    found = [float(value) for value in values if isinstance(value, int | float)]
    return found if len(found) == len(values) else None


def beats(directions: Sequence[Direction], one: Sequence[float], other: Sequence[float]) -> bool:
    """Returns whether one set of values is nowhere worse than another, and somewhere better."""
    signs = [1 if direction == "maximize" else -1 for direction in directions]
    gains = [sign * (mine - theirs) for sign, mine, theirs in zip(signs, one, other, strict=True)]
    return min(gains) >= 0 and max(gains) > 0


def front_with(
    directions: Sequence[Direction], front: Sequence[int], trials: Sequence[Judged], number: int
) -> list[int]:
    """Returns the Pareto front, trial numbers in order, after trial `number` succeeded.

    A trial with a value that is missing or not finite belongs to no front. Equal ones all stay.
    """
    values = numbers(trials[number].values)
    if values is None:
        return list(front)
    rivals = {other: numbers(trials[other].values) or [] for other in front}
    if any(beats(directions, theirs, values) for theirs in rivals.values()):
        return list(front)
    kept = [other for other, theirs in rivals.items() if not beats(directions, values, theirs)]
    return sorted([*kept, number])
