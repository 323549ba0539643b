"""The stages of a job of incremental learning, and its service: a small network that reads digits.

Each round trains on from a model with the samples that have come since, and compares both on samples that
neither has seen. See docs/rounds.md.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from digits_stream import first_samples
from torch import nn

from trackside.incremental import InferenceService, read_model
from trackside.sdk import Task, trial

CLASSES = 10
EPOCHS, RATE = 40, 0.01
MODEL = "weights.safetensors"


class First(Task):
    """Trains the model that the job begins with, on 30 images."""

    def train(self, device: str) -> dict[str, Any]:
        """Saves the model; returns its accuracy on what it was trained with."""
        images, labels = first_samples()
        return {"accuracy": fit_and_save(network(), images, labels, seed=0)}


class Train(Task):
    """Trains the input `model` on with the input `samples`. Parameters: `epochs`, `rate` of learning."""

    def train(self, device: str) -> dict[str, Any]:
        """Saves the model; returns its accuracy on what it was trained with."""
        asked = trial.parameters({"epochs": EPOCHS, "rate": RATE, "round": {"number": 1}})
        images, labels = read_samples(trial.input("samples"))
        model = loaded(trial.input("model"))
        accuracy = fit_and_save(
            model, images, labels, asked["round"]["number"], int(asked["epochs"]), float(asked["rate"])
        )
        return {"accuracy": accuracy, "samples": len(labels)}


class Evaluate(Task):
    """Compares the inputs `trained` and `deployed` on the input `samples`."""

    def train(self, device: str) -> dict[str, Any]:
        """Returns the metrics of both models: the accuracy, and that of each digit as a list."""
        images, labels = read_samples(trial.input("samples"))
        return {name: metrics(loaded(trial.input(name)), images, labels) for name in ("trained", "deployed")}


class ReadDigits(InferenceService):
    """Answers with the digit of an image: `{"pixels": [64 numbers]}` to `{"digit": 7, "shares": [...]}`."""

    def make_model(self) -> nn.Module:
        """Returns the network, whose weights are those of a model."""
        return network()

    def predict(self, model: nn.Module, inputs: Any) -> dict[str, Any]:
        """Returns the digit, and how likely each of the ten is."""
        with torch.no_grad():
            shares = model(as_tensor([inputs["pixels"]])).softmax(dim=1)[0]
        return {"digit": int(shares.argmax()), "shares": shares.tolist()}

    def scores(self, inputs: Any, outputs: dict[str, Any]) -> Any:
        """Returns what the miner of hard examples reads: the shares."""
        return outputs["shares"]


def network() -> nn.Module:
    """Returns a network with one hidden layer, with the same weights each time."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, CLASSES))


def loaded(path: Path) -> nn.Module:
    """Returns the network with the weights of a file."""
    model = network()
    model.load_state_dict(read_model(path, "safetensors"))
    return model


def read_samples(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Returns the images and the labels of a csv file with a header: 64 pixels, then the label."""
    rows = np.loadtxt(path, delimiter=",", skiprows=1, dtype=int, ndmin=2)
    return rows[:, :-1], rows[:, -1]


def as_tensor(images: Any) -> torch.Tensor:
    """Returns images of 64 pixels from 0 to 16 as what the network takes."""
    return torch.as_tensor(np.asarray(images, dtype=np.float32)) / 16


def fit_and_save(
    model: nn.Module,
    images: np.ndarray,
    labels: np.ndarray,
    seed: int,
    epochs: int = EPOCHS,
    rate: float = RATE,
) -> float:
    """Trains a network, and saves it as an artifact; returns its accuracy on these images."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    inputs, wanted = as_tensor(images), torch.as_tensor(labels)
    for epoch in range(epochs):
        for rows in torch.randperm(len(wanted)).split(30):
            loss = nn.functional.cross_entropy(model(inputs[rows]), wanted[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        trial.log(step=epoch, loss=loss.item())
    accuracy = metrics(model, images, labels)["accuracy"]
    trial.save(
        MODEL,
        as_safetensors(model.state_dict()),
        kind="model",
        metadata={"format": "safetensors", "devices": ["cpu"], "metrics": {"accuracy": accuracy}},
    )
    return float(accuracy)


def metrics(model: nn.Module, images: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """Returns the share of images that a network names rightly, of all and of each digit."""
    with torch.no_grad():
        right = model(as_tensor(images)).argmax(dim=1).numpy() == labels
    shares = [float(right[labels == digit].mean()) for digit in range(CLASSES) if (labels == digit).any()]
    return {"accuracy": float(right.mean()), "by_digit": shares, "samples": len(labels)}


def as_safetensors(state: dict[str, torch.Tensor]) -> bytes:
    """Returns weights as the bytes of a safetensors file: the length of a header, the header, the numbers."""
    header, parts, at = {}, [], 0
    for name, tensor in sorted(state.items()):
        parts.append(tensor.numpy().astype("<f4").tobytes())
        end = at + len(parts[-1])
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, end]}
        at = end
    described = json.dumps(header, separators=(",", ":")).encode()
    described += b" " * (-len(described) % 8)
    return len(described).to_bytes(8, "little") + described + b"".join(parts)
