"""Where the steps of a run are drawn: in layers, each to the right of the steps that it needs. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Any

DONE, FAILED, RUNNING, OTHER = "blue", "red", "green", "lightsteelblue"
VALUE_WIDTH = 24
"""After how many characters the value of a parameter is cut."""


@dataclass(frozen=True, slots=True)
class DrawnStep:
    """A step as it is drawn: `needs` are the names of others, `took` and `items` are texts."""

    name: str
    what: str
    state: str
    color: str
    needs: Sequence[str] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    took: str = ""
    items: str = ""
    task: str = ""
    """The id of its task or child; empty before it has one, and for a gate."""

    @property
    def lines(self) -> list[str]:
        """Its name, and a line for each parameter, with its value cut."""
        return [self.name, *(f"{name}: {cut(value)}" for name, value in self.parameters.items())]


def cut(value: object) -> str:
    """Returns a value as text of at most 24 characters, and ` ...` if there are more."""
    text = str(value)
    return text if len(text) <= VALUE_WIDTH else f"{text[:VALUE_WIDTH]} ..."


def layers_of(steps: Sequence[DrawnStep]) -> list[list[DrawnStep]]:
    """Returns the steps in layers: each in the one after the last of those that it needs.

    Within a layer they are ordered by where the steps that they need are.
    """
    by_name = {step.name: step for step in steps}
    layer: dict[str, int] = {}
    for name in TopologicalSorter({step.name: step.needs for step in steps}).static_order():
        layer[name] = max((layer[needed] + 1 for needed in by_name[name].needs), default=0)
    found: list[list[DrawnStep]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    for step in steps:
        found[layer[step.name]].append(step)
    place: dict[str, float] = {}
    for row in found:
        row.sort(key=lambda step: _middle(step, place))
        place |= {step.name: at / len(row) for at, step in enumerate(row)}
    return found


def _middle(step: DrawnStep, place: Mapping[str, float]) -> float:
    return sum(place[name] for name in step.needs) / len(step.needs) if step.needs else 0.0


def connected(steps: Sequence[DrawnStep]) -> tuple[list[DrawnStep], list[DrawnStep]]:
    """Returns the steps that need others or are needed by them, and those that stand alone."""
    joined = {name for step in steps if step.needs for name in (step.name, *step.needs)}
    return [step for step in steps if step.name in joined], [
        step for step in steps if step.name not in joined
    ]
