"""The importance of a search's parameters: PED-ANOVA, or Pearson's correlation, over trials with a value."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trackside.aggregates.search.messages import TrialStatus
from trackside.aggregates.search.state import Search, Trial
from trackside.aggregates.search.trials.objectives import directions_of, numbers
from trackside.replay.history.errors import ReplayError
from trackside.summaries.correlation import MIN_SAMPLES, Correlation, correlations

NAME = "_name"
MIN_TRIALS = 10
"""With fewer values the best tenth is too small to compare with."""


class TooFewTrialsError(ReplayError):
    """A search has too few trials for importances."""

    code = "too_few_trials"

    def __init__(self, search_id: str, count: int, needed: int) -> None:
        super().__init__(f"{search_id} has {count} trials with a value; importances need {needed}")


class EqualValuesError(ReplayError):
    """All trials of a search have the same value, so nothing goes together with it."""

    code = "equal_values"

    def __init__(self, search_id: str, value: float, count: int) -> None:
        super().__init__(
            f"all {count} trials of {search_id} have the value {value:g}; a correlation needs different ones"
        )
        self.count = count


@dataclass(frozen=True, slots=True)
class Importance:
    """A parameter (in a sub-space: `layer.kernel`) and its share; all shares add up to 1."""

    parameter: str
    share: float


def importances(search: Search, objective: int = 0) -> tuple[list[Importance], int]:
    """Returns the parameters that all counted trials have, most important first, and the number of trials.

    `objective` is the index of the objective whose values count. Raises TooFewTrialsError.
    """
    parameters, values = _counted(search, objective, MIN_TRIALS)
    return importances_of(parameters, values, directions_of(search.spec)[objective]), len(values)


def importances_of(
    parameters: Mapping[str, Sequence[Any]], values: Sequence[float], direction: str
) -> list[Importance]:
    """Returns parameters by importance, from their values in each trial and the values of the trials.

    A share measures how far the best tenth of the trials is from all of them along a parameter (Watanabe,
    Bansal, Hutter: PED-ANOVA, IJCAI 2023). `direction` is minimize or maximize.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    columns = {name: _distribution(found) for name, found in parameters.items()}
    searched = {name: column for name, column in columns.items() if column is not None}
    study = optuna.create_study(direction=direction)
    study.add_trials(
        [
            optuna.trial.create_trial(
                params={name: column[index] for name, (column, _) in searched.items()},
                distributions={name: distribution for name, (_, distribution) in searched.items()},
                value=value,
            )
            for index, value in enumerate(values)
        ]
    )
    shares = _shares(study) if searched else {}
    found = [Importance(name, round(float(shares.get(name, 0.0)), 6)) for name in parameters]
    return sorted(found, key=lambda one: (-one.share, one.parameter))


def parameter_correlations(search: Search, objective: int = 0) -> tuple[list[Correlation], int]:
    """Returns Pearson's correlation of each parameter with the value of the trial, and the number of trials.

    The strongest is first; parameters are those that all counted trials have, and one without a correlation
    says why. Raises TooFewTrialsError for fewer than three trials, and EqualValuesError.
    """
    parameters, values = _counted(search, objective, MIN_SAMPLES)
    if min(values) == max(values):
        raise EqualValuesError(search.search_id, values[0], len(values))
    return correlations(parameters, values), len(values)


def _counted(search: Search, objective: int, needed: int) -> tuple[dict[str, list[Any]], list[float]]:
    """Returns the parameters that all trials with a value have, as columns, and the values of these trials.

    Raises TooFewTrialsError.
    """
    found = [(trial, _value(trial, objective)) for trial in search.trials]
    counted = [(flattened(trial.parameters), value) for trial, value in found if value is not None]
    if len(counted) < needed:
        raise TooFewTrialsError(search.search_id, len(counted), needed)
    first, _ = counted[0]
    names = [name for name in first if all(name in parameters for parameters, _ in counted)]
    columns = {name: [parameters[name] for parameters, _ in counted] for name in names}
    return columns, [value for _, value in counted]


def flattened(parameters: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Returns the parameters of sub-spaces at the top level, after the name of their choice."""
    found: dict[str, Any] = {}
    for name, value in parameters.items():
        if isinstance(value, dict) and NAME in value:
            found[before + name] = value[NAME]
            inner = {key: one for key, one in value.items() if key != NAME}
            found |= flattened(inner, f"{before}{name}.")
        else:
            found[before + name] = value
    return found


def _value(trial: Trial, objective: int) -> float | None:
    """Returns the value by which a trial counts; None if it failed, is not in the space, or has no number."""
    values = numbers(trial.values or [trial.value])
    if (
        trial.outside
        or trial.status is not TrialStatus.SUCCEEDED
        or values is None
        or not math.isfinite(values[objective])
    ):
        return None
    return values[objective]


def _distribution(values: Sequence[Any]) -> tuple[list[Any], Any] | None:
    """Returns the values of a parameter as Optuna takes them and their distribution; None for a single value.

    A range over more than two orders of magnitude has a logarithmic scale.
    """
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    places = [json.dumps(value, sort_keys=True) for value in values]
    if len(set(places)) < 2:
        return None
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        low, high = float(min(values)), float(max(values))
        return [float(value) for value in values], FloatDistribution(low, high, log=0 < low * 100 < high)
    return places, CategoricalDistribution(sorted(set(places)))


def _shares(study: Any) -> dict[str, float]:
    import warnings

    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the evaluator is marked as experimental
        shares: dict[str, float] = get_param_importances(study, evaluator=PedAnovaImportanceEvaluator())
    return shares
