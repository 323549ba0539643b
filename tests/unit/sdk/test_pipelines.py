"""Pipelines defined in Python: the JSON of YAML, references that are escaped, all problems at once."""

from runpy import run_path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.house.source import ROOT
from trackside.domain.pipelines.compiling import CompiledPipeline, compile_pipeline
from trackside.domain.pipelines.definition import PipelineSpec
from trackside.domain.pipelines.references import parse_reference
from trackside.sdk import Pipeline
from trackside.sdk.errors import UnsendableError
from trackside.sdk.pipelines import (
    EACH_INDEX,
    EACH_ITEM,
    PipelineStep,
    Placeholder,
    definition_of,
    start_command,
)

EXAMPLE = ROOT / "deploy" / "examples" / "pipeline_digits"


def digits() -> Pipeline:
    pipeline = Pipeline(
        "digits", parameters={"epochs": {"type": "integer", "default": 3}}, timeout_s="2h", on_end="continue"
    )
    data = pipeline.task("data", "make-data", queue="io", run_timeout_s="90s")
    form = {"share": {"type": "number"}}
    look = pipeline.gate("look", "fit to train?", form=form, timeout_s="1d", needs=[data])
    train = pipeline.task(
        "train",
        "fit",
        parameters={"epochs": pipeline.parameter("epochs"), "share": look.result["share"], "of": EACH_ITEM},
        inputs={"images": data.artifacts["images"]},
        each=data.result["folds"],
        at_once=2,
        when="data.result.rows > 10",
    )
    pipeline.child("best", "search", {"space": {}, "name": f"after {train.id}"}, needs={"all_ended": [train]})
    pipeline.outputs(accuracy=train.result[0]["accuracy"], model=train.models.output[-1].uri)
    return pipeline


DIGITS = """
name: digits
parameters: {epochs: {type: integer, default: 3}}
steps:
  - {name: data, task_type: make-data, queue: io, run_timeout_s: 90.0}
  - name: look
    gate: {message: "fit to train?", form: {share: {type: number}}, timeout_s: 86400.0}
    needs: {all: [data]}
  - name: train
    task_type: fit
    parameters: {epochs: "${pipeline.epochs}", share: "${look.result.share}", of: "${item}"}
    inputs: {images: "${data.artifacts.images}"}
    when: data.result.rows > 10
    each: "${data.result.folds}"
    at_once: 2
  - name: best
    kind: search
    spec: {space: {}, name: "after ${train.id}"}
    needs: {all_ended: [train]}
timeout_s: 7200.0
on_end: {failed: continue, aborted: continue, timed_out: continue, lost: continue}
outputs: {accuracy: "${train.result.0.accuracy}", model: "${train.models.output.-1.uri}"}
"""


def test_a_built_pipeline_is_the_json_of_its_yaml_and_compiles() -> None:
    spec = digits().spec()
    assert spec == yaml.safe_load(DIGITS)
    body = yaml.safe_load(digits().yaml())
    assert body.pop("kind") == "pipeline" and body == spec
    compiled = compile_pipeline(PipelineSpec.model_validate(body))
    assert isinstance(compiled, CompiledPipeline)
    assert compiled.pipeline.steps[2].needs.all == ["look", "data"]


def test_the_three_forms_of_the_example_define_the_same_steps() -> None:
    built, controller = (
        run_path(str(EXAMPLE / name))["digits"]() for name in ("pipeline.py", "controller.py")
    )
    body = yaml.safe_load((EXAMPLE / "pipeline.yaml").read_text("utf-8"))
    assert body.pop("kind") == "pipeline"
    spec = definition_of(body).model_dump(mode="json")
    assert built.spec() == spec
    converted = controller.get_pipeline().spec()
    assert len(converted["steps"]) == len(spec["steps"]) == 3
    for step, same in zip(converted["steps"], spec["steps"], strict=True):
        assert {name: step[name] for name in same} == same
        assert step.keys() - same.keys() <= {"queue", "on_end", "needs"}


ODD = [".", "a.b", "\\", "a\\.b", "}", ":-", "${x}", "-1"]
TEXTS = st.text(min_size=1, max_size=8) | st.sampled_from(ODD)


@pytest.mark.thorough
@given(path=st.lists(TEXTS, min_size=1, max_size=4), default=st.none() | TEXTS)
def test_a_placeholder_reads_back_as_its_path_or_is_refused(path: list[str], default: str | None) -> None:
    """P7: a dot within a name is escaped."""
    try:
        text = str(Placeholder(*path, default=default))
    except ValueError:
        assert any(mark in "".join((*path, default or "")) for mark in ("}", ":", "\\")), path
        return
    assert text.startswith("${") and text.index("}") == len(text) - 1
    assert parse_reference(text[2:-1]) == (tuple(path), default)


def test_steps_of_other_runs_names_with_dots_and_defaults_are_written_as_references() -> None:
    data = PipelineStep("data", run="digits-7.best")
    assert str(data.artifacts["train.csv"].uri) == "${run:digits-7\\.best.data.artifacts.train\\.csv.uri}"
    assert str(PipelineStep("a").result["x"].or_else("none")) == "${a.result.x:-none}"
    assert str(PipelineStep("a").parameters["Args/lr"]) == "${a.parameters.Args/lr}"
    said = f"{PipelineStep('a').models.input[0].name} of {EACH_INDEX}"
    assert said == "${a.models.input.0.name} of ${index}"


@pytest.mark.parametrize("use", [bool, list, lambda value: "x" in value, float])
def test_a_placeholder_is_no_value_that_python_can_decide_by(use: Any) -> None:
    with pytest.raises(TypeError):
        use(PipelineStep("a").result["rows"])


def test_what_is_no_json_or_a_whole_step_is_named_with_its_place() -> None:
    pipeline = Pipeline()
    data = pipeline.task("data", "t")
    with pytest.raises(TypeError, match=r"train\.parameters\.rows\[0\]: expected a value of a step"):
        pipeline.task("train", "t", parameters={"rows": [data]})
    with pytest.raises(TypeError, match=r"train\.parameters\.seen: expected what JSON can hold, got set"):
        pipeline.task("train", "t", parameters={"seen": {1}})
    with pytest.raises(TypeError, match="needs: expected a list of steps"):
        pipeline.task("train", "t", needs="data")
    with pytest.raises(ValueError, match="has a step 'data' already"):
        pipeline.task("data", "t")
    with pytest.raises(ValueError, match="no parameter 'epoch'"):
        pipeline.parameter("epoch")


def test_all_problems_of_a_definition_come_at_once_with_code_and_path() -> None:
    wrong = Pipeline("p", parameters={"n": {"type": "integer"}})
    wrong.task("a", "t", parameters={"x": PipelineStep("nobody").result})
    wrong.task("b", "t", needs=["b"], when="a.result >")
    misspelt = Pipeline("p", timeout_s="soon")
    misspelt.task("a", "t", paramaters={})
    paths = ("[0].parameters.x", "[1].needs", "[1].when")
    in_steps = dict(zip(("unknown_step", "pipeline_cycle", "bad_expression"), paths, strict=True))
    for pipeline, expected in (
        (wrong, {code: f"$.steps{path}" for code, path in in_steps.items()}),
        (misspelt, {"unknown_value": "$.timeout_s", "unknown_field": "$.steps[0].paramaters"}),
        (Pipeline("empty"), {"bad_length": "$.steps"}),
    ):
        with pytest.raises(UnsendableError) as caught:
            pipeline.spec()
        assert {(each.code, each.path) for each in caught.value.problems} == {*expected.items()}


def test_a_pipeline_keeps_nothing_that_its_user_changes_and_its_runs_have_typed_parameters() -> None:
    """P2: what was given is copied, so no two steps share it. P31: a value that is typed stays typed."""
    parameters: dict[str, Any] = {"rows": [1]}
    pipeline, other = Pipeline(), Pipeline()
    pipeline.task("a", "t", parameters=parameters)
    parameters["rows"].append(2)
    pipeline.task("b", "t", parameters=parameters)
    other.task("a", "t")
    assert [step.get("parameters") for step in pipeline.spec()["steps"]] == [{"rows": [1]}, {"rows": [1, 2]}]
    assert other.spec()["steps"] == [{"name": "a", "task_type": "t"}]
    command = start_command(digits(), {"epochs": 5}, seed=7, use_cache=False)
    assert (command.parameters, command.seed, command.use_cache) == ({"epochs": 5}, 7, False)
    with pytest.raises(UnsendableError, match=r"bad_parameters? at .*epochs: \"5\" is not of type"):
        start_command(digits(), {"epochs": "5"})
    with pytest.raises(UnsendableError, match=r"unknown_field at \$\.sead"):
        start_command(digits(), sead=7)
    assert start_command(digits().spec()).pipeline == digits().definition()
