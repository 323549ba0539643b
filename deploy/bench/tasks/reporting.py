"""A task that reports points at irregular times."""

import random
import time

from trackside.sdk import Task, trial


class Reporting(Task):
    """Reports `points` values, each 100 to 300 ms after the one before."""

    def train(self, device: str) -> None:
        """Reports them."""
        parameters = trial.parameters()
        pauses = random.Random(int(parameters["seed"]))
        for step in range(int(parameters["points"])):
            time.sleep(pauses.uniform(0.1, 0.3))
            trial.report(float(step), step=step)
