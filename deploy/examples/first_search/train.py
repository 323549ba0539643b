"""What one trial of the search does: it fits a curve to noisy points. Put your own training in its place."""

import numpy as np

from trackside.sdk import Task, trial

EPOCHS = 30
TRAIN = 18_000


class Curve(Task):
    """Fits a sum of random waves to 18,000 noisy points and measures the error at 2,000 others."""

    def load(self) -> None:
        """Makes the points. Runs once in each trial, before `train`: read your data here."""
        rng = np.random.default_rng(0)
        self.x = rng.uniform(-3, 3, 20_000)
        self.y = np.sin(2 * self.x) + self.x / 3 + rng.normal(0, 0.1, 20_000)

    def train(self, device: str) -> dict[str, float]:
        """Trains on `device` ("cpu" or "cuda"). What it returns is kept with the trial."""
        asked = trial.parameters()  # one value for each name in the `space` of search.yaml
        waves, rate, batch = int(asked["waves"]), asked["learning_rate"], int(asked["batch"])
        rng = np.random.default_rng(1)
        inputs = np.cos(np.outer(self.x, rng.normal(0, 2, waves)) + rng.uniform(0, 2 * np.pi, waves))
        weights = np.zeros(waves)
        for epoch in range(EPOCHS):
            for rows in np.split(rng.permutation(TRAIN), range(batch, TRAIN, batch)):
                residuals = inputs[rows] @ weights - self.y[rows]
                weights -= rate / waves * inputs[rows].T @ residuals
            error = float(np.sqrt(np.mean((inputs[TRAIN:] @ weights - self.y[TRAIN:]) ** 2)))
            trial.report(error, step=epoch)  # the assessor may stop a bad trial here
        trial.result(error)  # the value that the search minimizes
        return {"error": error, "epochs": EPOCHS}


if __name__ == "__main__":  # `python train.py` runs one trial by itself, without a search
    import os

    os.environ.setdefault("TRACKSIDE_PARAMETERS", '{"learning_rate": 0.1, "waves": 30, "batch": 16}')
    task = Curve()
    task.load()
    task.train("cpu")
