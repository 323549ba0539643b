"""Optuna's own pruners on the rows of an assessor: the reference for the stopping rules."""

from collections.abc import Iterable, Mapping
from typing import Any

import optuna

from trackside.aggregates.search.messages import Direction
from trackside.aggregates.search.state import FeedRow

optuna.logging.set_verbosity(optuna.logging.ERROR)
PRUNED, FAILED = optuna.trial.TrialState.PRUNED, optuna.trial.TrialState.FAIL


def pruner_of(assessor: Mapping[str, Any]) -> optuna.pruners.BasePruner:
    options = dict(assessor.get("options") or {})
    if assessor["name"] == "patient":
        wrapped = options.pop("wrapped", None)
        return optuna.pruners.PatientPruner(None if wrapped is None else pruner_of(wrapped), **options)
    kinds: dict[str, Any] = {
        "median": optuna.pruners.MedianPruner,
        "percentile": optuna.pruners.PercentilePruner,
        "successive-halving": optuna.pruners.SuccessiveHalvingPruner,
        "hyperband": optuna.pruners.HyperbandPruner,
        "threshold": optuna.pruners.ThresholdPruner,
        "wilcoxon": optuna.pruners.WilcoxonPruner,
    }
    return kinds[assessor["name"]](**options)


def pruned(
    assessor: Mapping[str, Any], direction: Direction, seed: int, rows: Iterable[FeedRow]
) -> dict[int, int]:
    """Reports each row's value in a study; returns the trials pruned, each with the index of the row."""
    sampler, pruner = optuna.samplers.RandomSampler(seed=0), pruner_of(assessor)
    study = optuna.create_study(study_name=str(seed), direction=direction, pruner=pruner, sampler=sampler)
    trials: dict[int, optuna.Trial] = {}
    stopped: dict[int, int] = {}
    for place, (trial, step, value) in enumerate(rows):
        while trial not in trials:
            trials[len(trials)] = study.ask()
        if isinstance(step, int) and trial not in stopped:
            assert value is not None
            trials[trial].report(float(value), step)
            if trials[trial].should_prune():
                stopped[trial] = place
        elif isinstance(step, str) and step == "SUCCEEDED" and trial not in stopped:
            study.tell(trials[trial], float(value or 0))
        elif isinstance(step, str):
            study.tell(trials[trial], state=PRUNED if trial in stopped else FAILED)
    return stopped
