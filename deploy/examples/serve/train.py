"""Trains a linear classifier on scikit-learn's digits, and saves it as the artifact `model.npz`."""

import numpy
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from trackside.sdk import Task, trial


class Train(Task):
    """Parameters: `strength`, the inverse of the regularisation. Its value is the accuracy on new images."""

    def train(self, device: str) -> None:
        """Fits the classifier, saves it and reports its accuracy."""
        pixels, digits = load_digits(return_X_y=True)
        model = LogisticRegression(C=trial.parameters()["strength"], max_iter=500)
        model.fit(pixels[:-360], digits[:-360])
        accuracy = model.score(pixels[-360:], digits[-360:])
        numpy.savez("model.npz", weights=model.coef_, biases=model.intercept_)
        trial.save("model.npz", "model.npz", kind="model", metadata={"accuracy": accuracy})
        trial.result(accuracy)
