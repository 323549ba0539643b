"""ASHA: asynchronous successive halving that promotes (Li et al., 2020, algorithm 2)."""

from bisect import insort
from collections.abc import Sequence

from trackside.dispatcher.tuners.promotion.promoting_tuner import NextTrial, PromotableTrial


class Asha:
    """Promotes a trial as soon as it is among the best 1/`factor` of its rung; else begins a new one.

    `budgets` are the step limits of the rungs, lowest first. A trial that failed has no place on its rung.
    """

    def __init__(self, budgets: Sequence[int], factor: int) -> None:
        self._budgets = budgets
        self._factor = factor
        self._rungs: list[list[tuple[float, int]]] = [[] for _ in budgets]
        self._ended: dict[int, PromotableTrial] = {}
        self._promoted: set[int] = set()

    def next(self, may_begin: bool) -> NextTrial | None:
        """Returns the best trial of the highest rung that has one to promote, else a new configuration."""
        for rung in range(len(self._rungs) - 2, -1, -1):
            best = self._rungs[rung][: len(self._rungs[rung]) // self._factor]
            number = next((number for _, number in best if number not in self._promoted), None)
            if number is not None:
                return NextTrial(self._ended[number], self._budgets[rung + 1])
        return NextTrial(None, self._budgets[0]) if may_begin else None

    def add(self, trial: PromotableTrial) -> None:
        """Notes which trial is promoted by it."""
        if trial.from_trial is not None:
            self._promoted.add(trial.from_trial)

    def remove(self, trial: PromotableTrial) -> None:
        """Forgets that promotion."""
        if trial.from_trial is not None:
            self._promoted.discard(trial.from_trial)

    def end(self, trial: PromotableTrial) -> None:
        """Places a trial with a value on its rung."""
        if trial.value is not None and trial.step_limit in self._budgets:
            insort(self._rungs[self._budgets.index(trial.step_limit)], trial.rank)
            self._ended[trial.number] = trial
