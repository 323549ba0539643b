"""A task that fits a polynomial to noisy points by gradient descent: small enough to be read at once."""

import math
import random
from typing import Any

from trackside.sdk import Task, trial

POINTS = 64
NOISE = 0.05


class Fit(Task):
    """Loads the points on the host, then fits as many coefficients as its parameters say.

    Parameters: `degree` of the polynomial, `rate` of learning, `rounds`; all optional.
    """

    def load(self) -> None:
        """Draws the points: a wave with a little noise, the same for every task."""
        chance = random.Random(7)
        self.xs = [2 * at / (POINTS - 1) - 1 for at in range(POINTS)]
        self.ys = [math.sin(2 * x) + chance.gauss(0, NOISE) for x in self.xs]

    def train(self, device: str) -> dict[str, Any]:
        """Fits, reports the mean squared error now and then, and returns the last one."""
        asked = trial.parameters()
        rate, rounds = asked.get("rate", 0.1), asked.get("rounds", 200)
        weights = [0.0] * (asked.get("degree", 3) + 1)
        loss = self._loss(weights)
        for step in range(1, rounds + 1):
            weights = self._stepped(weights, rate)
            if step % max(1, rounds // 5) == 0:
                loss = self._loss(weights)
                trial.report(loss, step=step)
        trial.result(loss)
        return {"loss": loss, "degree": len(weights) - 1, "rounds": rounds, "device": device}

    def _loss(self, weights: list[float]) -> float:
        errors = (_value(weights, x) - y for x, y in zip(self.xs, self.ys, strict=True))
        return sum(error * error for error in errors) / POINTS

    def _stepped(self, weights: list[float], rate: float) -> list[float]:
        slopes = [0.0] * len(weights)
        for x, y in zip(self.xs, self.ys, strict=True):
            error = _value(weights, x) - y
            for power in range(len(weights)):
                slopes[power] += 2 * error * x**power / POINTS
        return [weight - rate * slope for weight, slope in zip(weights, slopes, strict=True)]


def _value(weights: list[float], x: float) -> float:
    return sum(weight * x**power for power, weight in enumerate(weights))
