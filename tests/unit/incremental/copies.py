"""Copies of models as tests make them, and a reader of `model_config.json` like the thread of Sedna."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from trackside.incremental.copying import CopyModel
from trackside.incremental.model_config import MODELS_KEPT
from trackside.sdk import trial
from trackside.sdk.in_task.channel import ScreenChannel


def copy_model(
    inputs: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, version: int, **asked: Any
) -> dict[str, Any]:
    inputs.mkdir(exist_ok=True)
    (inputs / "model").write_bytes(content)
    described = {"model": "digits", "version": version, "format": "safetensors"}
    described["sha256"] = hashlib.sha256(content).hexdigest()
    parameters = {"job": "Job-1", "update": version, "time_ms": version * 1000, "model": described} | asked
    if parameters["target"] == "removal":
        parameters = {name: each for name, each in parameters.items() if name not in ("update", "model")}
    monkeypatch.setenv("TRACKSIDE_INPUTS", str(inputs))
    monkeypatch.setenv("TRACKSIDE_PARAMETERS", json.dumps(parameters))
    trial.connect(ScreenChannel())
    task = CopyModel()
    task.load()
    return task.train("cpu")


def version_of(path: str) -> int:
    found = re.search(r"-v(\d+)-", Path(path).name)
    assert found is not None, path
    return int(found[1])


class Poller:
    """Reads `model_config.json` as the thread of Sedna does: each look is one turn of its loop.

    A wrong file, or a path without a file, raises; Sedna's thread would skip it, or end. A look that takes
    longer than it takes to write as many models as are kept reads nothing.
    """

    def __init__(self, config: Path) -> None:
        self._config = config
        self._version = "latest"
        self.models: list[bytes] = []

    def look(self) -> None:
        if not self._config.exists():
            return
        found = json.loads(self._config.read_text())["model_config"]
        latest = str(found["model_update_time"])
        try:
            model = Path(found["model_path"]).read_bytes()
        except FileNotFoundError:
            newer = json.loads(self._config.read_text())["model_config"]
            if version_of(newer["model_path"]) - version_of(found["model_path"]) < MODELS_KEPT - 1:
                raise
            return
        if latest != self._version:
            self._version = latest
            self.models.append(model)
