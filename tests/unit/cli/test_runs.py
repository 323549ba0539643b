"""What people write to continue runs and to decide their gates, read before anything is asked."""

from typing import Any

import pytest

from trackside.aggregates.run.messages import StartPipelineRun
from trackside.cli.commands.runs import patches, with_parameters, without_cache
from trackside.cli.runtime.failures import BadUsage
from trackside.contracts.commands import Ping


def start(**parameters: Any) -> StartPipelineRun:
    spec = {"steps": [{"name": "a", "task_type": "noop"}], "parameters": parameters}
    return StartPipelineRun.model_validate({"pipeline": spec})


def test_parameters_keep_the_type_that_the_pipeline_declares() -> None:
    """P31: a value is JSON, and the text of a parameter that is a string stays one."""
    declared = start(rows={"type": "integer"}, name={"type": "string"}, extra={})
    found = with_parameters(["rows=500", "name=500", "extra=[1, 2]", "unknown=x"], declared)
    assert isinstance(found, StartPipelineRun)
    assert found.parameters == {"rows": 500, "name": "500", "extra": [1, 2], "unknown": "x"}


def test_only_a_pipeline_has_parameters_to_set() -> None:
    with pytest.raises(BadUsage, match="--set is for the parameters of a pipeline"):
        with_parameters(["a=1"], Ping())


def test_only_a_pipeline_can_do_without_the_cache() -> None:
    """P34: as `pipelines run --no-cache` does for one that is defined by name."""
    found = without_cache(start())
    assert isinstance(found, StartPipelineRun)
    assert not found.use_cache
    with pytest.raises(BadUsage, match="--no-cache is for a pipeline"):
        without_cache(Ping())


def test_patches_name_a_step_and_its_parameter() -> None:
    found = patches(["train.lr=0.1", "train.model.layers=3", "report.title=last"])
    assert found == {
        "train": {"parameters": {"lr": 0.1, "model.layers": 3}},
        "report": {"parameters": {"title": "last"}},
    }
