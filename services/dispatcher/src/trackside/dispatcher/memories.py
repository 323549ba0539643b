"""Which memory a tuner's name means: used in the advisor process, where Optuna and users' code may run."""

from collections.abc import Mapping
from typing import Any

from trackside.dispatcher import listed
from trackside.dispatcher.axes import Space
from trackside.dispatcher.memory import Direction, Memory
from trackside.dispatcher.samplers import SearchMemory


def opened(space: Space, tuner: Mapping[str, Any], seed: int, direction: Direction) -> Memory:
    """Opens an empty memory for a search; raises ValueError for an unknown tuner."""
    name, options = tuner["name"], tuner.get("options") or {}
    if name == "grid":
        return listed.grid(space, seed)
    if name == "batch":
        return listed.batch(space, options)
    return SearchMemory(space, tuner, seed, direction)
