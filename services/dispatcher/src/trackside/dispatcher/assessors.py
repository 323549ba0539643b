"""Assessors: whether a running trial is hopeless, by Optuna's pruners, as a pure function of the reports.

Optuna is imported only where a trial is really assessed, so that `problem` costs a service nothing.
"""

import math
from collections.abc import Mapping
from typing import Any, Literal

from trackside.dispatcher.memory import Direction, EndState
from trackside.dispatcher.options import Allowed, Count, Fault, choice_fault

Verdict = Literal["keep", "stop"]

ASSESSORS: Mapping[str, Allowed] = {
    "median": {
        "n_startup_trials": Count(0),
        "n_warmup_steps": Count(0),
        "interval_steps": Count(1),
        "n_min_trials": Count(1),
    },
}


def problem(assessor: Mapping[str, object]) -> Fault | None:
    """Finds what is wrong with an assessor's name or options: a JSON path and a message, or None."""
    return choice_fault("assessor", assessor, ASSESSORS)


class Assessment:
    """The reports of one search's trials, judged by the median stopping rule.

    Completed trials are what others are measured against, so only these are kept in the Optuna study;
    a running trial is shown to the pruner when it is judged.
    """

    def __init__(self, assessor: Mapping[str, Any], direction: Direction) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        if assessor["name"] not in ASSESSORS:
            expected = ", ".join(sorted(ASSESSORS))
            raise ValueError(f"unknown assessor {assessor['name']!r}; expected one of {expected}")
        self._pruner = optuna.pruners.MedianPruner(**(assessor.get("options") or {}))
        self._study = optuna.create_study(direction=direction, sampler=optuna.samplers.RandomSampler(seed=0))
        self._running: dict[int, dict[int, float]] = {}
        self._ended: set[int] = set()

    def observe(self, trial: int, step: int, value: float | None) -> None:
        """Takes in one report; a step reported again is overwritten.

        What isn't a finite number is left out: it would spoil every median and every best value.
        """
        if trial not in self._ended and value is not None and math.isfinite(value):
            self._running.setdefault(trial, {})[step] = float(value)

    def restart(self, trial: int) -> None:
        """Forgets the reports of a trial whose task begins again, so that attempts don't mix."""
        self._running.pop(trial, None)

    def end(self, trial: int, state: EndState) -> None:
        """Takes in the end of a trial; a second end changes nothing."""
        import optuna

        if trial in self._ended:
            return
        self._ended.add(trial)
        reports = self._running.pop(trial, {})
        if state == "complete":
            # The rule reads reports only; the value of the end is not part of it.
            self._study.add_trial(optuna.trial.create_trial(value=0.0, intermediate_values=reports))

    def verdict(self, trial: int) -> Verdict:
        """Judges a trial on what it has reported so far; one that is over or silent is kept."""
        import optuna

        reports = self._running.get(trial)
        if not reports:
            return "keep"
        running = optuna.trial.create_trial(
            state=optuna.trial.TrialState.RUNNING, intermediate_values=dict(reports)
        )
        return "stop" if self._pruner.prune(self._study, running) else "keep"
