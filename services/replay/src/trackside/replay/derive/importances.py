"""Which parameters mattered in a search: Optuna's PED-ANOVA over the trials that gave a value."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trackside.aggregates.search.objectives import directions_of, numbers
from trackside.aggregates.search.state import Search, Trial
from trackside.contracts.searches import TrialStatus
from trackside.replay.history.errors import ReplayError

NAME = "_name"
FEWEST = 10
"""With fewer values the best tenth is no group to compare with."""


class TooFewTrialsError(ReplayError):
    """A search hasn't enough trials to say which parameters mattered."""

    def __init__(self, search_id: str, count: int) -> None:
        super().__init__(f"{search_id} has {count} trials with a value; importances need {FEWEST}")


@dataclass(frozen=True, slots=True)
class Importance:
    """A parameter, those of sub-spaces as `layer.kernel`, and its share: all together are 1."""

    parameter: str
    share: float


def importances(search: Search, objective: int = 0) -> tuple[list[Importance], int]:
    """Gives the parameters that every counted trial has, the most important first, and how many counted.

    `objective` is a place among those of the search, whose values count. Says how far the best tenth of the
    trials lies from all of them along each parameter (Watanabe, Bansal, Hutter: PED-ANOVA, IJCAI 2023).
    Raises TooFewTrialsError.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    values = {trial.number: _value(trial, objective) for trial in search.trials}
    counted = [trial for trial in search.trials if values[trial.number] is not None]
    if len(counted) < FEWEST:
        raise TooFewTrialsError(search.search_id, len(counted))
    flat = [flattened(trial.parameters) for trial in counted]
    names = [name for name in flat[0] if all(name in parameters for parameters in flat)]
    columns = {name: _column([parameters[name] for parameters in flat]) for name in names}
    searched = {name: column for name, column in columns.items() if column is not None}
    study = optuna.create_study(direction=directions_of(search.spec)[objective])
    study.add_trials(
        [
            optuna.trial.create_trial(
                params={name: values[at] for name, (values, _) in searched.items()},
                distributions={name: distribution for name, (_, distribution) in searched.items()},
                value=values[trial.number],
            )
            for at, trial in enumerate(counted)
        ]
    )
    shares = _shares(study) if searched else {}
    found = [Importance(name, round(float(shares.get(name, 0.0)), 6)) for name in names]
    return sorted(found, key=lambda one: (-one.share, one.parameter)), len(counted)


def flattened(parameters: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Gives the parameters of sub-spaces beside the others, behind the name of their choice."""
    found: dict[str, Any] = {}
    for name, value in parameters.items():
        if isinstance(value, dict):
            found[before + name] = value.get(NAME)
            inner = {key: one for key, one in value.items() if key != NAME}
            found |= flattened(inner, f"{before}{name}.")
        else:
            found[before + name] = value
    return found


def _value(trial: Trial, objective: int) -> float | None:
    """Gives the value by which a trial counts; none for one that didn't succeed, or lacks a finite number."""
    values = numbers(trial.values or [trial.value])
    if trial.status is not TrialStatus.SUCCEEDED or values is None or not math.isfinite(values[objective]):
        return None
    return values[objective]


def _column(values: Sequence[Any]) -> tuple[list[Any], Any] | None:
    """Gives the values of a parameter as Optuna takes them and where they lie; None for one value only.

    A range over more than two orders of magnitude is looked at by its logarithm.
    """
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    if len({json.dumps(value) for value in values}) < 2:
        return None
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        low, high = float(min(values)), float(max(values))
        return [float(value) for value in values], FloatDistribution(low, high, log=0 < low * 100 < high)
    places = [json.dumps(value, sort_keys=True) for value in values]
    return places, CategoricalDistribution(sorted(set(places)))


def _shares(study: Any) -> dict[str, float]:
    import warnings

    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna says of the evaluator that it is experimental
        shares: dict[str, float] = get_param_importances(study, evaluator=PedAnovaImportanceEvaluator())
    return shares
