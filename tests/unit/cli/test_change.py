from typing import Any

import pytest

from trackside.aggregates.run.messages import StartPipelineRun
from trackside.cli.app import call
from trackside.cli.commands.change import assignments, seconds
from trackside.cli.commands.runs import patches, with_parameters, without_cache
from trackside.cli.runtime.failures import BadUsage


def test_values_of_parameters_are_json_or_text_times_have_units_and_what_is_neither_is_bad_usage() -> None:
    assert [seconds(text) for text in ("", "90", "1.5 h")] == [None, 90.0, 5_400.0]
    found = assignments(["lr=0.01", "n=7", "opt=adam", 'layer={"_name": "conv"}', "path=a=b", "on=true"])
    assert found == {"lr": 0.01, "n": 7, "opt": "adam", "layer": {"_name": "conv"}, "path": "a=b", "on": True}
    with pytest.raises(BadUsage, match="expected NAME=VALUE"):
        assignments(["lr"])
    with pytest.raises(BadUsage, match="expected seconds, or a number with s, m, h or d"):
        seconds("soon")


@pytest.mark.parametrize(
    "typed",
    ["pause", "resume", "update --goal 1", "request-trials 1", "add-trial x=1", "stop-trial 1", "stop"],
)
def test_d29_an_imported_search_can_be_looked_at_and_not_changed(
    typed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    verb, *rest = typed.split()
    assert call([verb, "imported/digits-1", *rest]) == 2
    said = capsys.readouterr().err
    assert "is read-only" in said and "trackside replay fork imported/digits-1" in said


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
