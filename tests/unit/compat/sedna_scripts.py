"""Given: the scripts of a worker of Sedna, for samples `x1,x2 label` and a logistic regression of numpy."""

from pathlib import Path

INTERFACE = """
import numpy as np

class Estimator:
    def __init__(self, **kwargs):
        self.weights = np.zeros(3)

    def train(self, train_data, valid_data=None, epochs=1, learning_rate=1.0, **kwargs):
        features = np.column_stack([train_data.x, np.ones(len(train_data.x))])
        for _ in range(epochs):
            errors = 1 / (1 + np.exp(-features @ self.weights)) - train_data.y
            self.weights -= learning_rate * features.T @ errors / len(features)
        return {"loss": float(np.square(errors).mean())}

    def predict(self, data, **kwargs):
        likely = 1 / (1 + np.exp(-(np.append(data, 1) @ self.weights)))
        return [1 - likely, likely]

    def evaluate(self, data, threshold=0.5, **kwargs):
        right = [(self.predict(x)[1] > threshold) == (y == 1) for x, y in zip(data.x, data.y)]
        each = [np.mean([found for found, y in zip(right, data.y) if y == label]) for label in (0, 1)]
        return {"accuracy": float(np.mean(right)), "recall": each}

    def save(self, model_path=None):
        np.savez(model_path, weights=self.weights)

    def load(self, model_url=""):
        self.weights = np.load(model_url)["weights"]
"""
READING = """
import numpy as np
from sedna.common.config import BaseConfig, Context
from sedna.core.incremental_learning import IncrementalLearning
from sedna.datasources import TxtDataParse
from interface import Estimator

def features(line):
    values, _, label = line.partition(" ")
    return (*map(float, values.split(",")), float(label))

def samples(kind, url):
    data = TxtDataParse(data_type=kind, func=features)
    data.parse(url, use_raw=True)
    data.x, data.y = data.x[:, :2], data.x[:, 2]
    return data
"""
TRAIN = f"""{READING}
data = samples("train", BaseConfig.train_dataset_url)
learning = IncrementalLearning(estimator=Estimator)
rate = float(Context.get_parameters("learning_rate", "1"))
learning.train(train_data=data, epochs=int(Context.get_parameters("epochs")), learning_rate=rate)
"""
EVAL = f"""{READING}
data = samples("eval", Context.get_parameters("test_dataset_url"))
found = IncrementalLearning(estimator=Estimator).evaluate(data, threshold=0.5)
assert len(found) == 2
"""
SERVE = """
import sys, time
import numpy as np
from sedna.core.incremental_learning import IncrementalLearning
from interface import Estimator

learning = IncrementalLearning(Estimator, IncrementalLearning.get_hem_algorithm_from_config())
while True:
    learning.inference(np.array([0.1, 0.1]))
    time.sleep(0.02)  # a frame of a camera
"""


def write_scripts(folder: Path) -> None:
    for name, text in (("interface", INTERFACE), ("train", TRAIN), ("eval", EVAL), ("serve", SERVE)):
        (folder / f"{name}.py").write_text(text)


def write_samples(path: Path, seed: int, lines: int = 200) -> Path:
    """Writes samples of two classes, which a line divides but for a few."""
    from random import Random

    random = Random(seed)
    points = [(random.gauss(0, 1), random.gauss(0, 1)) for _ in range(lines)]
    labels = [int(x + 2 * y + random.gauss(0, 0.2) > 0) for x, y in points]
    samples = zip(points, labels, strict=True)
    path.write_text("".join(f"{x:.4f},{y:.4f} {label}\n" for (x, y), label in samples))
    return path
