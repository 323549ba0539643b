"""Successive halving (ASHA) and Hyperband, with the decisions of Optuna's pruners, on sorted rungs."""

import math
from bisect import bisect_left, insort
from typing import Literal
from zlib import crc32

from trackside.aggregates.search.messages import Direction
from trackside.dispatcher.assessors.stopping_rules import LearningCurve

Auto = Literal["auto"]


class SuccessiveHalving:
    """Stops a trial that reaches a rung of steps and is not among the best 1/`reduction_factor` there.

    The values of all trials at a rung count, also of those that failed or were stopped; an attempt that is
    repeated is removed from its rungs.
    """

    def __init__(
        self,
        direction: Direction,
        min_resource: int | Auto = "auto",
        reduction_factor: int = 4,
        min_early_stopping_rate: int = 0,
        bootstrap_count: int = 0,
    ) -> None:
        self._maximize = direction == "maximize"
        self._least = None if min_resource == "auto" else min_resource
        self._factor = reduction_factor
        self._rate = min_early_stopping_rate
        self._bootstrap_count = bootstrap_count
        self._longest: int | None = None
        self._rungs: list[list[float]] = []

    def on_completed(self, curve: LearningCurve, value: float) -> None:
        """Updates the number of steps of a trial, which determines the first rung unless an option does."""
        if curve.steps:
            self._longest = max(self._longest or 0, curve.steps[-1])

    def on_ended(self, curve: LearningCurve, state: str) -> None:
        """Does nothing: the trial stays on its rungs."""

    def on_restarted(self, curve: LearningCurve) -> None:
        """Removes an attempt from its rungs."""
        for rung, (_, value) in enumerate(curve.rungs):
            passed = self._rungs[rung]
            del passed[bisect_left(passed, value)]

    def on_resumed(self, curve: LearningCurve) -> None:
        """Adds what counts of an attempt to its rungs again."""
        for rung, (_, value) in enumerate(curve.rungs):
            insort(self._rungs[rung], value)

    def should_stop(self, curve: LearningCurve) -> bool:
        """Compares the trial with others at every rung that its newest step has reached."""
        if not math.isfinite(curve.newest):
            return False
        if self._least is None:
            if self._longest is None:
                return False
            self._least = max(self._longest // 100, 1)
        while curve.steps[-1] >= self._least * self._factor ** (self._rate + len(curve.rungs)):
            rung = len(curve.rungs)
            if rung == len(self._rungs):
                self._rungs.append([])
            passed = self._rungs[rung]
            insort(passed, curve.newest)
            curve.rungs.append((curve.steps[-1], curve.newest))
            if len(passed) <= self._bootstrap_count or not self._is_promoted(curve.newest, passed):
                return True
        return False

    def _is_promoted(self, value: float, passed: list[float]) -> bool:
        border = max(len(passed) // self._factor - 1, 0)
        return value >= passed[-(border + 1)] if self._maximize else value <= passed[border]


class Hyperband:
    """Several successive halvings, each with a later first rung; each trial belongs to one of them.

    It is a function of the search's seed, as a study's name, and of the trial's number, as in Optuna.
    """

    def __init__(
        self,
        direction: Direction,
        seed: int,
        min_resource: int = 1,
        max_resource: int | Auto = "auto",
        reduction_factor: int = 3,
        bootstrap_count: int = 0,
    ) -> None:
        self._direction = direction
        self._seed = seed
        self._least = min_resource
        self._most = None if max_resource == "auto" else max_resource
        self._factor = reduction_factor
        self._bootstrap_count = bootstrap_count
        self._longest: int | None = None
        self._brackets: list[SuccessiveHalving] = []
        self._shares: list[int] = []

    def on_completed(self, curve: LearningCurve, value: float) -> None:
        """Updates the number of steps of a trial, which determines the brackets unless an option does."""
        if curve.steps:
            self._longest = max(self._longest or 0, curve.steps[-1])

    def on_ended(self, curve: LearningCurve, state: str) -> None:
        """Does nothing: the trial stays on its rungs."""

    def on_restarted(self, curve: LearningCurve) -> None:
        """Removes an attempt from its rungs."""
        if curve.rungs:
            self._brackets[curve.bracket].on_restarted(curve)

    def on_resumed(self, curve: LearningCurve) -> None:
        """Adds what counts of an attempt to its rungs again."""
        if curve.rungs:
            self._brackets[curve.bracket].on_resumed(curve)

    def should_stop(self, curve: LearningCurve) -> bool:
        """Compares the trial with others of its bracket."""
        if not math.isfinite(curve.newest):
            return False
        if not self._brackets and not self._make_brackets():
            return False
        curve.bracket = self._bracket_of(curve.number)
        return self._brackets[curve.bracket].should_stop(curve)

    def _make_brackets(self) -> bool:
        """Creates the brackets, if the number of steps is known; returns whether it is."""
        if self._most is None:
            if self._longest is None:
                return False
            self._most = self._longest + 1
        count = math.floor(math.log(self._most / self._least, self._factor)) + 1
        for bracket in range(count):
            later = count - 1 - bracket
            self._shares.append(math.ceil(count * self._factor**later / (later + 1)))
            halving = SuccessiveHalving(
                self._direction, self._least, self._factor, bracket, self._bootstrap_count
            )
            self._brackets.append(halving)
        return bool(self._brackets)

    def _bracket_of(self, number: int) -> int:
        left = crc32(f"{self._seed}_{number}".encode()) % sum(self._shares)
        for bracket, share in enumerate(self._shares):
            left -= share
            if left < 0:
                return bracket
        raise AssertionError("a remainder is below the sum")
