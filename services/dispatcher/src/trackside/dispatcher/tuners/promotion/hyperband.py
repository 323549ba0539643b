"""Hyperband that promotes: brackets of synchronous successive halving (Li et al., 2018, algorithm 1).

After the last bracket the first one begins again, as in BOHB. While a rung waits for its last trials, the
next bracket begins, so that no device waits (as in HpBandSter).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from trackside.dispatcher.tuners.promotion.promoting_tuner import NextTrial, PromotableTrial


def bracket_sizes(budgets: Sequence[int], factor: int) -> list[list[tuple[int, int]]]:
    """Returns the brackets of one round, each as (number of trials, step limit) by rung.

    The first has all rungs, each later one a rung less; the paper's n, n_i and r_i.
    """
    brackets = []
    for later in range(len(budgets) - 1, -1, -1):
        first = -(-len(budgets) * factor**later // (later + 1))
        limits = budgets[len(budgets) - 1 - later :]
        brackets.append([(first // factor**rung, limit) for rung, limit in enumerate(limits)])
    return brackets


@dataclass(slots=True)
class _Bracket:
    """The rungs of a bracket: how many trials each has place for, and those that it has."""

    rungs: Sequence[tuple[int, int]]
    trials: list[list[PromotableTrial]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.trials = [[] for _ in self.rungs]

    @property
    def begins(self) -> bool:
        """Whether it has place for a new configuration."""
        return len(self.trials[0]) < self.rungs[0][0]

    def next(self, may_begin: bool) -> NextTrial | None:
        """Returns the next trial of its lowest rung that isn't full; None while it waits, and at its end."""
        if self.begins and may_begin:
            return NextTrial(None, self.rungs[0][1])
        for rung in range(1, len(self.rungs)):
            below = self.trials[rung - 1]
            if not all(trial.ended for trial in below):
                return None
            ranked = sorted((t for t in below if t.value is not None), key=lambda trial: trial.rank)
            places, limit = self.rungs[rung]
            promoted = {trial.from_trial for trial in self.trials[rung]}
            for trial in ranked[:places]:
                if trial.number not in promoted:
                    return NextTrial(trial, limit)
        return None


class PromotingHyperband:
    """The brackets that go on, in the order in which they began."""

    def __init__(self, budgets: Sequence[int], factor: int) -> None:
        self._round = bracket_sizes(budgets, factor)
        self._brackets: list[_Bracket] = []
        self._begun = 0
        self._bracket_of: dict[int, tuple[_Bracket, int]] = {}

    def next(self, may_begin: bool) -> NextTrial | None:
        """Returns the next trial of the oldest bracket that has one; else the first of a new bracket."""
        for bracket in self._brackets:
            found = bracket.next(may_begin)
            if found is not None:
                return found
        return NextTrial(None, self._upcoming()[0][1]) if may_begin else None

    def add(self, trial: PromotableTrial) -> None:
        """Adds a trial to the bracket of the one that it continues, or to the first with place for it."""
        if trial.from_trial is not None:
            if trial.from_trial in self._bracket_of:
                bracket, rung = self._bracket_of[trial.from_trial]
                self._put(trial, bracket, rung + 1)
            return
        bracket = next((each for each in self._brackets if each.begins), None) or self._begin()
        self._put(trial, bracket, 0)

    def remove(self, trial: PromotableTrial) -> None:
        """Takes the newest trial out of its bracket again."""
        if trial.number in self._bracket_of:
            bracket, rung = self._bracket_of.pop(trial.number)
            bracket.trials[rung].remove(trial)

    def end(self, trial: PromotableTrial) -> None:
        """Drops the brackets whose trials have all ended, and that promote none of them."""
        self._brackets = [
            each
            for each in self._brackets
            if each.begins or each.next(False) is not None or not _is_over(each)
        ]

    def _put(self, trial: PromotableTrial, bracket: _Bracket, rung: int) -> None:
        if rung < len(bracket.trials):
            bracket.trials[rung].append(trial)
            self._bracket_of[trial.number] = (bracket, rung)

    def _upcoming(self) -> list[tuple[int, int]]:
        return self._round[self._begun % len(self._round)]

    def _begin(self) -> _Bracket:
        bracket = _Bracket(self._upcoming())
        self._begun += 1
        self._brackets.append(bracket)
        return bracket


def _is_over(bracket: _Bracket) -> bool:
    return all(trial.ended for rung in bracket.trials for trial in rung)
