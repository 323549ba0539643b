"""Learns handwritten digits with scikit-learn. Nothing in here knows of Trackside, nor needs it.

Run it by hand: python train.py parameters.json, where the file holds {"alpha": 0.0001, "epochs": 5}.
Numbers go as lines of JSON to the descriptor in TRACKSIDE_METRICS_FD, or to the screen if there is none.
"""

import json
import os
import sys
from pathlib import Path

import numpy
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import train_test_split


def main(parameters_file: str) -> None:
    """Trains for some epochs and tells the accuracy on images that were set aside."""
    parameters = json.loads(Path(parameters_file).read_text("utf-8"))
    images, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(images / 16, labels, random_state=0)
    model = SGDClassifier(alpha=parameters.get("alpha", 1e-4), random_state=0)
    order = numpy.random.default_rng(0)
    accuracy = 0.0
    with os.fdopen(int(os.environ.get("TRACKSIDE_METRICS_FD", "1")), "w", buffering=1) as metrics:
        for epoch in range(parameters.get("epochs", 5)):
            shuffled = order.permutation(len(train_x))
            model.partial_fit(train_x[shuffled], train_y[shuffled], classes=numpy.unique(labels))
            accuracy = model.score(test_x, test_y)
            norm = float(numpy.linalg.norm(model.coef_))
            metrics.write(json.dumps({"metric": "weights/norm", "value": norm, "step": epoch}) + "\n")
            metrics.write(json.dumps({"report": accuracy, "step": epoch}) + "\n")
        numpy.save("weights.npy", model.coef_)
        metrics.write(json.dumps({"final": accuracy}) + "\n")
        metrics.write(json.dumps({"result": {"accuracy": accuracy, "images": len(test_x)}}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
