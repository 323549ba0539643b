"""A task that reports points at irregular times."""

import random
import time

from trackside.sdk import Task, trial


class Reporting(Task):
    """Reports `points` values, each 20 to 120 ms after the one before."""

    def train(self, device: str) -> None:
        """Reports them."""
        parameters = trial.parameters()
        pauses = random.Random(int(parameters["seed"]))
        for step in range(int(parameters["points"])):
            time.sleep(pauses.uniform(0.02, 0.12))
            trial.report(float(step), step=step)
