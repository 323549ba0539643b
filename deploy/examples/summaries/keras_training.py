"""Trains a small model with Keras, and records its numbers and the histograms of its weights.

By hand: KERAS_BACKEND=torch python keras_training.py, which writes event files below runs/. As a task of a
worker everything is in the log.
"""

from typing import Any

import keras
import numpy as np

from trackside.sdk import SummaryWriter


class SummaryCallback(keras.callbacks.Callback):
    """Records what Keras logs of each epoch, and each weight."""

    def __init__(self, writer: SummaryWriter) -> None:
        super().__init__()
        self.writer = writer

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Records one epoch."""
        for name, value in (logs or {}).items():
            self.writer.add_scalar(name, value, epoch)
        for weight in self.model.weights:
            self.writer.add_histogram(weight.path, keras.ops.convert_to_numpy(weight), epoch)


def main() -> None:
    """Trains for three epochs."""
    random = np.random.default_rng(0)
    inputs = random.normal(size=(256, 8)).astype("float32")
    targets = (inputs.sum(axis=1) > 0).astype("float32")
    model = keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dense(1, "sigmoid")])
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    with SummaryWriter() as writer:
        model.fit(
            inputs, targets, validation_split=0.25, epochs=3, verbose=0, callbacks=[SummaryCallback(writer)]
        )


if __name__ == "__main__":
    main()
