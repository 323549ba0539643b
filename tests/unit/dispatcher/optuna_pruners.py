"""Optuna's own pruners on the rows of an assessor: the reference for the stopping rules."""

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import optuna

from trackside.aggregates.search.messages import Direction
from trackside.aggregates.search.state import FeedRow

optuna.logging.set_verbosity(optuna.logging.ERROR)
PRUNED, FAILED = optuna.trial.TrialState.PRUNED, optuna.trial.TrialState.FAIL


def pruner_of(assessor: Mapping[str, Any]) -> optuna.pruners.BasePruner:
    """Creates the pruner of an assessor's spec."""
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


class OptunaStudy:
    def __init__(self, assessor: Mapping[str, Any], direction: Direction, seed: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pruner = pruner_of(assessor)
        self._study = optuna.create_study(
            study_name=str(seed),
            direction=direction,
            pruner=pruner,
            sampler=optuna.samplers.RandomSampler(seed=0),
        )
        self._trials: dict[int, optuna.Trial] = {}
        self.stopped: dict[int, int] = {}

    def take(self, rows: Iterable[FeedRow]) -> dict[int, int]:
        """Reports each row's value; returns the trials pruned so far, each with the index of the row."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._take(rows)
        return self.stopped

    def _take(self, rows: Iterable[FeedRow]) -> None:
        for place, (trial, step, value) in enumerate(rows):
            while trial not in self._trials:
                self._trials[len(self._trials)] = self._study.ask()
            if isinstance(step, int) and trial not in self.stopped:
                assert value is not None
                self._trials[trial].report(float(value), step)
                if self._trials[trial].should_prune():
                    self.stopped[trial] = place
            elif isinstance(step, str):
                self._end(trial, step, value)

    def _end(self, trial: int, status: str, value: Any) -> None:
        if trial in self.stopped:
            self._study.tell(self._trials[trial], state=PRUNED)
        elif status == "SUCCEEDED":
            self._study.tell(self._trials[trial], value)
        else:
            self._study.tell(self._trials[trial], state=FAILED)
