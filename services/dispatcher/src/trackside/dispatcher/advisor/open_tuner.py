"""Which memory a tuner's name means: used in the advisor process, where Optuna and users' code may run."""

from collections.abc import Mapping, Sequence
from typing import Any

from trackside.contracts.searches import Direction
from trackside.dispatcher.plugins import tuners as own_tuners
from trackside.dispatcher.tuners import enumerated as listed
from trackside.dispatcher.tuners.axes import Space
from trackside.dispatcher.tuners.catalogue import TUNERS
from trackside.dispatcher.tuners.optuna_tuner import SearchMemory
from trackside.dispatcher.tuners.tuner import Memory


def opened(
    space: Space,
    tuner: Mapping[str, Any],
    seed: int,
    direction: Direction,
    directions: Sequence[Direction] = (),
) -> Memory:
    """Opens an empty memory for a search: of one of our tuners, else of an installed one.

    `directions` are those of several objectives, which an installed one isn't asked for.

    Raises ValueError for an unknown tuner, and whatever a user's tuner raises.
    """
    name, options = tuner["name"], tuner.get("options") or {}
    if name == "grid":
        return listed.grid(space, seed)
    if name == "batch":
        return listed.batch(space, options)
    if name not in TUNERS:
        return own_tuners.OwnMemory(space, tuner, seed, direction)
    return SearchMemory(space, tuner, seed, directions or (direction,))
