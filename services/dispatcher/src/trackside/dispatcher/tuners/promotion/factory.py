"""Creates the tuners that promote, by their names and options."""

from collections.abc import Mapping
from typing import Any

from trackside.aggregates.search.messages import Direction
from trackside.aggregates.search.space.axes import SpaceJson, axes_of
from trackside.aggregates.search.space.promoting_options import DEFAULT_FACTORS, rung_budgets
from trackside.dispatcher.tuners.promotion.asha import Asha
from trackside.dispatcher.tuners.promotion.bandit import Bandit
from trackside.dispatcher.tuners.promotion.configurations import Configurations
from trackside.dispatcher.tuners.promotion.hyperband import PromotingHyperband
from trackside.dispatcher.tuners.promotion.population import Perturbation, PopulationOptions, PopulationTuner
from trackside.dispatcher.tuners.promotion.promoting_tuner import PromotingTuner, PromotionRule
from trackside.dispatcher.tuners.tuner import AskTellTuner, suggestion_seed

_RANDOM_FRACTION = {"random": 1.0, "tpe": 0.0}


def promoting_tuner(
    space: SpaceJson, tuner: Mapping[str, Any], seed: int, direction: Direction
) -> AskTellTuner:
    """Creates the tuner of a name that promotes, without any trials."""
    name, options = tuner["name"], tuner.get("options") or {}
    if name in DEFAULT_FACTORS:
        return _with_rungs(space, name, options, seed, direction)
    axes = axes_of(space)
    resample = options.get("resample_probability", 0.25)
    return PopulationTuner(
        axes,
        PopulationOptions(
            **{key: options[key] for key in PopulationOptions.__dataclass_fields__ if key in options}
        ),
        1.0 if direction == "maximize" else -1.0,
        lambda number: suggestion_seed(seed, number),
        Perturbation(axes, resample, options.get("perturbation", 0.2))
        if name == "pbt"
        else Bandit(axes, options["interval"], resample),
    )


def _with_rungs(
    space: SpaceJson, name: str, options: Mapping[str, Any], seed: int, direction: Direction
) -> PromotingTuner:
    least, most = options.get("min_resource", 1), options["max_resource"]
    factor = options.get("reduction_factor", DEFAULT_FACTORS[name])
    by_chance = (
        options.get("random_fraction", 1 / 3)
        if name == "bohb"
        else _RANDOM_FRACTION[options.get("sampler", "random")]
    )
    budgets = rung_budgets(least, most, factor, options.get("min_early_stopping_rate", 0))
    rule: PromotionRule
    if name == "asha":
        rule = Asha(budgets, factor)
    else:
        # From the largest budget down, as in the paper: R / eta^s.
        budgets = [most // factor**later for later in range(len(budgets) - 1, -1, -1)]
        rule = PromotingHyperband(budgets, factor)
    return PromotingTuner(
        rule, Configurations(space, seed, direction, by_chance), direction == "maximize", most
    )
