"""The steps of the pipeline: each saves an artifact, which the next one has as an input."""

import io
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from trackside.sdk import Task, trial

CLASSES = 10


class Data(Task):
    """Saves the images and labels of handwritten digits as `digits`.

    Parameters: `rows`, how many; all 1,797 by default.
    """

    def train(self, device: str) -> dict[str, Any]:
        """Returns how many rows there are."""
        images, labels = load_digits(return_X_y=True)
        rows = int(trial.parameters({"rows": len(labels)})["rows"])
        trial.save("digits", packed(images=images[:rows], labels=labels[:rows]))
        return {"rows": len(labels[:rows])}


class Processing(Task):
    """Scales the input `digits`, sets a share aside, and saves both parts as `split`.

    Parameters: `held_out`, the share; `seed` of the order.
    """

    def train(self, device: str) -> dict[str, Any]:
        """Returns the sizes of both parts."""
        asked = trial.parameters({"held_out": 0.2, "seed": 1})
        digits = np.load(trial.input("digits"), allow_pickle=False)
        order = np.random.default_rng(asked["seed"]).permutation(len(digits["labels"]))
        images, labels = digits["images"][order] / 16, digits["labels"][order]
        at = int(len(labels) * asked["held_out"])
        parts = {"train_images": images[at:], "train_labels": labels[at:]}
        trial.save("split", packed(**parts, held_out_images=images[:at], held_out_labels=labels[:at]))
        return {"train": len(labels) - at, "held_out": at}


class Training(Task):
    """Trains a linear classifier on the input `split`, and saves it as the model `weights`.

    Parameters: `epochs`, and `lr`, the rate of learning.
    """

    def train(self, device: str) -> dict[str, Any]:
        """Returns the share of held-out images that are named rightly."""
        asked = trial.parameters({"epochs": 20, "lr": 0.5})
        split = np.load(trial.input("split"), allow_pickle=False)
        images, wanted = split["train_images"], np.eye(CLASSES)[split["train_labels"]]
        weights = np.zeros((images.shape[1], CLASSES))
        accuracy = 0.0
        for epoch in range(asked["epochs"]):
            scores = np.exp(images @ weights)
            error = scores / scores.sum(axis=1, keepdims=True) - wanted
            weights -= asked["lr"] * images.T @ error / len(images)
            named = (split["held_out_images"] @ weights).argmax(axis=1)
            accuracy = float((named == split["held_out_labels"]).mean())
            trial.report(accuracy, step=epoch)
        trial.save("weights", packed(weights=weights), kind="model")
        return {"accuracy": accuracy, "epochs": asked["epochs"]}


def packed(**arrays: Any) -> bytes:
    """Returns arrays as the bytes of a .npz file."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()
