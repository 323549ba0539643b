"""The example of a pipeline: one definition in YAML, in Python and in ClearML's words; its steps run."""

import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from tests.house.source import ROOT
from trackside.sdk.pipelines import definition_of

EXAMPLE = ROOT / "deploy" / "examples" / "pipeline_digits"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
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
