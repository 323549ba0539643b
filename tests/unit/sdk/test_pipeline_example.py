"""The example of a pipeline: one definition in YAML, in Python and in ClearML's words; its steps run."""

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.house.source import ROOT
from trackside.sdk import trial
from trackside.sdk.channel import ScreenChannel
from trackside.sdk.pipelines import definition_of

EXAMPLE = ROOT / "deploy" / "examples" / "pipeline_digits"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Imports a module of the example."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    names = ("pipeline", "controller", "digits_steps")
    yield importlib.import_module
    for name in names:
        sys.modules.pop(name, None)


def test_the_three_forms_define_the_same_steps(example: Callable[[str], Any]) -> None:
    body = yaml.safe_load((EXAMPLE / "pipeline.yaml").read_text("utf-8"))
    assert body.pop("kind") == "pipeline"
    spec = definition_of(body).model_dump(mode="json")
    assert example("pipeline").digits().spec() == spec
    converted = example("controller").digits().get_pipeline().spec()
    assert len(converted["steps"]) == len(spec["steps"]) == 3
    for step, same in zip(converted["steps"], spec["steps"], strict=True):
        assert {name: step[name] for name in same} == same
        assert step.keys() - same.keys() <= {"queue", "on_end", "needs"}


@pytest.mark.thorough
def test_the_steps_of_the_example_work_one_after_another(
    example: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sklearn")
    steps = example("digits_steps")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRACKSIDE_INPUTS", str(tmp_path / "outputs"))
    trial.connect(ScreenChannel())
    found = []
    for kind, parameters in (
        (steps.Data, {"rows": 400}),
        (steps.Processing, {"held_out": 0.25, "seed": 1}),
        (steps.Training, {"epochs": 15, "lr": 0.5}),
    ):
        monkeypatch.setenv("TRACKSIDE_PARAMETERS", json.dumps(parameters))
        found.append(kind().train("cpu"))
        trial.connect(ScreenChannel())
    assert found[:2] == [{"rows": 400}, {"train": 300, "held_out": 100}]
    assert found[2]["accuracy"] > 0.8
