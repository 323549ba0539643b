"""Creates the tuner of a name: used in the advisor process, where Optuna and users' code may run."""

from collections.abc import Mapping, Sequence
from typing import Any

from trackside.aggregates.search.messages import Direction
from trackside.aggregates.search.space.axes import SpaceJson
from trackside.aggregates.search.space.builtin_tuners import TUNERS
from trackside.aggregates.search.space.promoting_options import PROMOTING
from trackside.dispatcher.plugins.tuner_plugins import PluginTuner
from trackside.dispatcher.tuners.list_tuner import batch_tuner, grid_tuner
from trackside.dispatcher.tuners.optuna_tuner import OptunaTuner
from trackside.dispatcher.tuners.promotion.factory import promoting_tuner
from trackside.dispatcher.tuners.tuner import AskTellTuner


def make_tuner(
    space: SpaceJson,
    tuner: Mapping[str, Any],
    seed: int,
    direction: Direction,
    directions: Sequence[Direction] = (),
) -> AskTellTuner:
    """Creates the tuner of a search, without any trials: a built-in one, else an installed one.

    `directions` are those of several objectives, which only built-in tuners can have.

    Raises ValueError for an unknown tuner, and any exception of a user's tuner.
    """
    name, options = tuner["name"], tuner.get("options") or {}
    if name == "grid":
        return grid_tuner(space, seed)
    if name == "batch":
        return batch_tuner(space, options)
    if name in PROMOTING:
        return promoting_tuner(space, tuner, seed, direction)
    if name not in TUNERS:
        return PluginTuner(space, tuner, seed, direction)
    return OptunaTuner(space, tuner, seed, directions or (direction,))
