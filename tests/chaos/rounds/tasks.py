"""Stages whose model is the list of all samples that it has learned from, and a service that answers with it.

So the bytes of each model follow from the samples of its rounds, and a sample that is lost, or used twice,
changes the digest of all later models.
"""

import json
from pathlib import Path
from typing import Any

from trackside.incremental import InferenceService
from trackside.sdk import Task, trial


def learned(base: bytes, samples: list[str]) -> bytes:
    """Returns the model that a round makes of another one."""
    return json.dumps({"rounds": [*json.loads(base)["rounds"], samples]}).encode()


class Learn(Task):
    """Adds its samples to the model that it begins with."""

    def train(self, device: str) -> dict[str, Any]:
        """Saves the model; returns how many samples it had."""
        samples = trial.input("samples").read_text().splitlines()
        model = learned(trial.input("model").read_bytes(), samples)
        trial.save("model.json", model, kind="model", metadata={"format": "json"})
        return {"samples": len(samples)}


class Compare(Task):
    """Prefers the model of more rounds."""

    def train(self, device: str) -> dict[str, Any]:
        """Returns the number of rounds of both models."""
        return {name: {"rounds": rounds_of(trial.input(name))} for name in ("trained", "deployed")}


class Answer(InferenceService):
    """Answers each request with its model."""

    def predict(self, model: Any, inputs: Any) -> Any:
        """Returns the model."""
        return model


def rounds_of(path: Path) -> int:
    """Returns how many rounds a model has."""
    return len(json.loads(path.read_bytes())["rounds"])
