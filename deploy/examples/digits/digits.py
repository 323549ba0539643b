"""Trains a small network on scikit-learn's handwritten digits and reports its accuracy each epoch."""

from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import nn

from trackside.sdk import Task, trial

EPOCHS = 10
BATCH = 48
HELD_OUT = 360
SPLIT_SEED = 20
OPTIMIZERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop}


class Digits(Task):
    """Learns 1,437 images of 8 x 8 pixels and is judged by its accuracy on 360 that it never saw.

    Parameters: `lr`, `hidden` units, `dropout`, `optimizer` (sgd, adam or rmsprop).
    """

    def load(self) -> None:
        """Reads the images and sets the same ones aside as for every other trial."""
        torch.set_num_threads(1)
        pixels, labels = load_digits(return_X_y=True)
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(SPLIT_SEED))
        images = torch.as_tensor(pixels, dtype=torch.float32)[order] / 16
        wanted = torch.as_tensor(labels)[order]
        self.train_images, self.held_out_images = images[HELD_OUT:], images[:HELD_OUT]
        self.train_labels, self.held_out_labels = wanted[HELD_OUT:], wanted[:HELD_OUT]

    def train(self, device: str) -> dict[str, Any]:
        """Trains for 10 epochs; gives the accuracy on the held-out images, the best and the last."""
        asked = trial.parameters()
        torch.manual_seed(0)
        model = network(int(asked["hidden"]), float(asked["dropout"])).to(device)
        optimizer = OPTIMIZERS[asked["optimizer"]](model.parameters(), lr=float(asked["lr"]))
        accuracies = []
        for epoch in range(EPOCHS):
            loss = self.epoch(model, optimizer, device)
            accuracies.append(self.accuracy(model, device))
            trial.log(step=epoch, loss=loss)
            trial.report(accuracies[-1], step=epoch)
        trial.result(accuracies[-1])
        return {"accuracy": accuracies[-1], "best_accuracy": max(accuracies), "epochs": EPOCHS}

    def epoch(self, model: nn.Module, optimizer: torch.optim.Optimizer, device: str) -> float:
        """Shows the network every training image once; gives the mean loss."""
        model.train()
        order = torch.randperm(len(self.train_labels))
        total = 0.0
        for batch in order.split(BATCH):
            predicted = model(self.train_images[batch].to(device))
            loss = nn.functional.cross_entropy(predicted, self.train_labels[batch].to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        return total / len(order)

    def accuracy(self, model: nn.Module, device: str) -> float:
        """Returns the share of held-out images that the network names rightly."""
        model.eval()
        with torch.no_grad():
            named = model(self.held_out_images.to(device)).argmax(dim=1).cpu()
        return float((named == self.held_out_labels).float().mean())


def network(hidden: int, dropout: float) -> nn.Module:
    """Makes a network with one hidden layer."""
    return nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, 10))


if __name__ == "__main__":  # python digits.py, with TRACKSIDE_PARAMETERS or these
    import os

    os.environ.setdefault(
        "TRACKSIDE_PARAMETERS", '{"lr": 0.005, "hidden": 64, "dropout": 0.1, "optimizer": "adam"}'
    )
    task = Digits()
    task.load()
    task.train("cpu")
