"""New configurations for tuners that promote: at random, or from a model of the results at one budget.

The model is that of BOHB (Falkner et al., 2018, section 3.2): of the budgets with enough results the largest
one, and with a given probability none, so that all of the space is searched. Its densities are those of
Optuna's multivariate TPE instead of the paper's kernels.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from numpy.random import RandomState

from trackside.aggregates.search.messages import Direction
from trackside.aggregates.search.space.axes import SpaceJson, axes_of, flat_axes
from trackside.dispatcher.tuners.optuna_tuner import OptunaTuner
from trackside.dispatcher.tuners.tuner import TriedParameters, suggestion_seed

_MODEL = {"name": "tpe-multivariate", "options": {"n_startup_trials": 0}}


class Configurations:
    """The configurations of a search so far, their results by budget, and what is drawn from these."""

    def __init__(self, space: SpaceJson, seed: int, direction: Direction, random_fraction: float) -> None:
        axes = axes_of(space)
        self.tried = TriedParameters(axes)
        self._space, self._seed, self._direction = space, seed, direction
        self._random_fraction = random_fraction
        dimensions = sum(1 for _, axis in flat_axes(axes) if not axis.is_single)
        self._enough = dimensions + 3  # the paper's N_min + 2, where N_min is d + 1
        self._random = OptunaTuner(space, {"name": "random"}, seed, (direction,), self.tried)
        self._models: dict[int, OptunaTuner] = {}
        self._results: Counter[int] = Counter()

    def draw(self, number: int) -> dict[str, Any] | None:
        """Draws parameters for trial `number` that no trial has; returns None if all have been tried."""
        budget = max((each for each, count in self._results.items() if count >= self._enough), default=None)
        by_chance = RandomState(suggestion_seed(self._seed, number)).uniform() < self._random_fraction
        model = self._random if budget is None or by_chance else self._models[budget]
        return model.draw(number)

    def learn(self, parameters: Mapping[str, Any], budget: int, value: float) -> None:
        """Adds the value that a configuration had reached with a budget."""
        if self._random_fraction >= 1:
            return
        if budget not in self._models:
            self._models[budget] = OptunaTuner(
                self._space, _MODEL, self._seed, (self._direction,), self.tried
            )
        self._results[budget] += 1
        self._models[budget].add_result(parameters, value)
