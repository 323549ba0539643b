from typing import Any

from trackside.aggregates.run.messages import StartPipelineRun
from trackside.cli.commands.runs import patches, with_parameters, without_cache


def start(**parameters: Any) -> StartPipelineRun:
    spec = {"steps": [{"name": "a", "task_type": "noop"}], "parameters": parameters}
    return StartPipelineRun.model_validate({"pipeline": spec})


def test_parameters_keep_the_type_that_the_pipeline_declares_and_the_cache_can_be_left_out() -> None:
    """P31: a value is JSON, and the text of a parameter that is a string stays one."""
    declared = start(rows={"type": "integer"}, name={"type": "string"}, extra={})
    found = with_parameters(["rows=500", "name=500", "extra=[1, 2]", "unknown=x"], declared)
    assert isinstance(found, StartPipelineRun)
    assert found.parameters == {"rows": 500, "name": "500", "extra": [1, 2], "unknown": "x"}
    # P34: as `pipelines run --no-cache` does for one that is defined by name.
    found = without_cache(start())
    assert isinstance(found, StartPipelineRun) and not found.use_cache


def test_patches_name_a_step_and_its_parameter() -> None:
    found = patches(["train.lr=0.1", "train.model.layers=3", "report.title=last"])
    train = {"parameters": {"lr": 0.1, "model.layers": 3}}
    assert found == {"train": train, "report": {"parameters": {"title": "last"}}}
