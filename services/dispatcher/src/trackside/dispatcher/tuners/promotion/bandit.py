"""PB2: explores by a Gaussian process whose rewards change with time (Parker-Holder et al., 2020).

The reward of a turn is what the value has gained a step. The covariance of two turns is that of their
parameters, a squared exponential, times (1 - forgetting)^(|t - t'| / 2), with t in turns. Its scale, noise
and forgetting maximize the likelihood of the rewards. The parameters of the next turn maximize mean +
sqrt(beta) standard deviations; turns that still train count for the deviation with the mean as their reward,
so that those who explore at the same time keep apart.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from trackside.aggregates.search.space.axes import Axes, Axis, NotInSpaceError, encode
from trackside.dispatcher.tuners.promotion.population import Perturbation, drawn_value
from trackside.dispatcher.tuners.promotion.promoting_tuner import PromotableTrial

Points = NDArray[np.float64]
CANDIDATES = 1_000
"""So many points are compared for the largest upper bound."""
TURNS_MAX = 200
"""The newest turns that the process is fitted to, as time makes older ones worth nothing."""
_SCALES = (0.1, 0.2, 0.4, 0.8, 1.6)
_NOISES = (1e-3, 1e-2, 1e-1)
_FORGETTING = (0.01, 0.05, 0.1, 0.3)


@dataclass(frozen=True, slots=True)
class _Kernel:
    scale: float
    noise: float
    forgetting: float

    def covariance(self, one: Points, other: Points) -> Points:
        """Returns the covariance of turns: rows of time and parameters, these from 0 to 1."""
        apart = one[:, None, 1:] - other[None, :, 1:]
        squares = np.einsum("ijk,ijk->ij", apart, apart)
        ages = np.abs(one[:, None, 0] - other[None, :, 0])
        found: Points = np.exp(-squares / (2 * self.scale**2)) * (1 - self.forgetting) ** (ages / 2)
        return found

    def likelihood(self, points: Points, rewards: Points) -> float:
        """Returns the log likelihood of rewards, without its constant."""
        lower = self._cholesky(points)
        whitened = np.linalg.solve(lower, rewards)
        return float(-0.5 * whitened @ whitened - np.log(np.diag(lower)).sum())

    def _cholesky(self, points: Points) -> Points:
        covariance = self.covariance(points, points)
        noise = (self.noise + 1e-9) * np.eye(len(points))
        return np.asarray(np.linalg.cholesky(covariance + noise), np.float64)

    def bounds(self, known: Points, rewards: Points, busy: Points, candidates: Points) -> Points:
        """Returns the upper confidence bound of each candidate."""
        lower = self._cholesky(known)
        across = np.linalg.solve(lower, self.covariance(known, candidates))
        mean = across.T @ np.linalg.solve(lower, rewards)
        everything = np.vstack([known, busy])
        across = np.linalg.solve(self._cholesky(everything), self.covariance(everything, candidates))
        variance = np.maximum(1.0 - np.einsum("ij,ij->j", across, across), 0.0)
        beta = 0.2 + max(0.0, math.log(0.4 * max(float(candidates[0, 0]), 1.0)))  # c1 and c2 of the paper
        found: Points = mean + np.sqrt(beta * variance)
        return found


class Bandit:
    """Explores numbers by the process, and choices as PBT does."""

    def __init__(self, axes: Axes, interval: int, resample_probability: float) -> None:
        self._axes = axes
        self._interval = interval
        self._numbers = [name for name, axis in axes.items() if axis.scale != "index" and not axis.is_single]
        choices = frozenset(axes.keys() - set(self._numbers))
        self._perturb_choices = Perturbation(axes, resample_probability, only=choices)

    def __call__(
        self, random: RandomState, parent: PromotableTrial, trials: Sequence[PromotableTrial]
    ) -> dict[str, Any]:
        """Returns the parameters of a trial that goes on from `parent`."""
        found = self._perturb_choices(random, parent, trials)
        if not self._numbers:
            return found
        rewarded, rewards, busy = self._turns(trials)
        draws = [self._drawn(random) for _ in range(CANDIDATES)]
        if len(rewards) < 2 or float(rewards.std()) == 0.0:
            return {**found, **draws[0]}
        turn = parent.step_limit / self._interval + 1
        candidates = np.array([self._point(turn, {**found, **draw}) for draw in draws])
        scaled = (rewards - rewards.mean()) / rewards.std()
        kernel = max(
            (_Kernel(*each) for each in product(_SCALES, _NOISES, _FORGETTING)),
            key=lambda each: each.likelihood(rewarded, scaled),
        )
        best = int(np.argmax(kernel.bounds(rewarded, scaled, busy, candidates)))
        return {**found, **draws[best]}

    def _drawn(self, random: RandomState) -> dict[str, Any]:
        return {name: drawn_value(self._axes[name], random) for name in self._numbers}

    def _turns(self, trials: Sequence[PromotableTrial]) -> tuple[Points, Points, Points]:
        """Returns the turns with a reward as points, their rewards, and the turns that train, as points."""
        rewarded, rewards, busy = [], [], []
        for trial in trials:
            before = None if trial.from_trial is None else trials[trial.from_trial]
            if not trial.own or before is None or before.value is None or not self._fits(trial):
                continue
            if trial.value is not None:
                steps = max(trial.step_limit - before.step_limit, 1)
                rewarded.append(self._point(trial.step_limit / self._interval, trial.parameters))
                rewards.append((trial.value - before.value) / steps)
            elif not trial.ended:
                busy.append(self._point(trial.step_limit / self._interval, trial.parameters))
        width = len(self._numbers) + 1
        newest = slice(-TURNS_MAX, None)
        return (
            np.array(rewarded[newest]).reshape(-1, width),
            np.array(rewards[newest]),
            np.array(busy[newest]).reshape(-1, width),
        )

    def _fits(self, trial: PromotableTrial) -> bool:
        try:
            encode(self._axes, trial.parameters)
        except NotInSpaceError:
            return False
        return True

    def _point(self, turn: float, parameters: Any) -> list[float]:
        codes = encode(self._axes, parameters)
        return [turn, *(_share(self._axes[name], float(codes[name])) for name in self._numbers)]


def _share(axis: Axis, code: float) -> float:
    """Returns where a number is between the ends of its axis, from 0 to 1."""
    low, high = axis.low, axis.high
    if axis.scale == "log":
        low, high, code = math.log(low), math.log(high), math.log(code)
    return (code - low) / (high - low)
