"""The examples for Keras, Lightning and Hugging Face run, where these libraries are installed."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.house.source import ROOT
from tests.unit.summaries.tensorboard_files import items_of, scalars_of, whole

EXAMPLES = ROOT / "deploy" / "examples" / "summaries"
NEEDS = {
    "keras_training": ("keras", {"loss": 3, "accuracy": 3, "val_loss": 3, "val_accuracy": 3}, 4),
    "lightning_training": ("pytorch_lightning", {"loss": 12, "epoch": 12}, 1),
    "hugging_face_training": ("transformers", {"loss": 12, "grad_norm": 12, "learning_rate": 12}, 0),
}


def test_every_example_is_tried() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("*.py")) == sorted(NEEDS)


@pytest.mark.parametrize("name", NEEDS)
def test_an_example_writes_its_curves(name: str, tmp_path: Path) -> None:
    library, curves, histograms = NEEDS[name]
    if find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    environment = {**os.environ, "KERAS_BACKEND": "torch"}
    subprocess.run([sys.executable, EXAMPLES / f"{name}.py"], cwd=tmp_path, env=environment, check=True)
    (path,) = (tmp_path / "runs").glob("*/events*")
    points = scalars_of(whole(path))
    assert {tag: len(points[tag]) for tag in curves} == curves
    assert len({item.tag for item in items_of(whole(path)) if item.kind == "histogram"}) == histograms
