"""Single steps of a definition: what they refer to, are called and have, and what is refused."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.commands import command_of
from tests.unit.domain.pipelines.given import compiled, pipeline, places, problems, step
from trackside.aggregates.run.messages import StartPipelineRun
from trackside.contracts.envelope.refusals import REFUSAL_CODES, Problem, problems_of
from trackside.contracts.envelope.step_names import STEP_NAMES
from trackside.domain.pipelines.definition import RESERVED

ARTIFACT = {"uri": "store:sha256/" + "a" * 64, "sha256": "a" * 64, "size_bytes": 7}


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        ("${prepare}", "bad_reference", "names no kind; expected one of: artifacts"),
        ("${}", "unknown_step", "there is no step ''"),
        ("${prepare.artefacts.m}", "bad_reference", "unknown kind 'artefacts'"),
        ("${prepare.artefacts.m}", "bad_reference", "did you mean 'artifacts'?"),
        ("${prepare.Artifacts.m}", "bad_reference", "did you mean 'artifacts'?"),
        ("${prepare.artifacts}", "bad_reference", "names none of the artifacts"),
        ("${prepare.parameters.}", "bad_reference", "names none of the parameters"),
        ("${prepare.id.x}", "bad_reference", "id has nothing in it"),
        ("${prepare.status.x}", "bad_reference", "status has nothing in it"),
        ("${prepare.models}", "bad_reference", "expected models.input or models.output"),
        ("${prepare.models.Output.0.id}", "bad_reference", "expected models.input or models.output"),
        ("${prepare.models.output}", "bad_reference", "expected the index"),
        ("${prepare.models.output.first.id}", "bad_reference", "-1 is the last"),
        ("${prepare.models.output.--1.id}", "bad_reference", "expected the index"),
        ("${prepare.models.output.²·.id}", "bad_reference", "expected the index"),
        ("${prepare.models.output.0}", "bad_reference", "expected a property of a model (id, media_type"),
        ("${prepare.models.output.0.nam}", "bad_reference", "did you mean 'name'?"),
        ("${prepare.models.output.0.name.x}", "bad_reference", "expected a property"),
        ("${pipeline}", "bad_reference", "names no parameter"),
        ("${pipeline.row}", "unknown_parameter", "no parameter 'row'; did you mean 'rows'?"),
        ("${item}", "bad_reference", "item is only there in a step with each"),
        ("${index}", "bad_reference", "index is only there in a step with each or repeat"),
        ("${run:}", "bad_reference", "expected run:ID.STEP.KIND"),
        ("${run:nightly\\.3}", "bad_reference", "expected run:ID.STEP.KIND"),
        ("${run:nightly\\.3.prepare.ids}", "bad_reference", "did you mean 'id'?"),
    ],
)
def test_a_reference_to_nothing_is_named(text: str, code: str, expected: str) -> None:
    """P8, P31: unknown steps, kinds, properties and parameters, each with the nearest one."""
    [problem] = problems(
        step("prepare"),
        step("train", parameters={"x": f"<{text}>"}),
        parameters={"rows": {"type": "integer", "default": 1}},
    )
    assert (problem.code, problem.path) == (code, "$.steps[1].parameters.x")
    assert problem.message.startswith(f"{text}: ")
    assert expected in problem.message


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("${prepare.result", "${prepare.result"),
        ("rows: ${prepare.id}, ${prepare.result.rows", "${prepare.result.rows"),
        ("${", "${"),
        ("${prepare.result and ${prepare.id}", "${prepare.result and ${prepare.id}"),
        ("${prepare.result.x:-${prepare.id}}", "${prepare.result.x:-${prepare.id}"),
    ],
)
def test_a_reference_that_is_not_closed_is_no_text(text: str, shown: str) -> None:
    """P6, P8: it was taken as text, and the task got the characters."""
    found = problems(
        step("prepare"), step("train", parameters={"x": [{"$y": text}]}), outputs={"best": {"of": text}}
    )
    assert {(each.code, each.path) for each in found} == {
        ("bad_reference", "$.steps[1].parameters.x[0].$y"),
        ("bad_reference", "$.outputs.best.of"),
    }
    assert found[0].message.startswith(f"{shown!r}: a reference ends with }} before the next one begins")
    assert "write ${pipeline.NAME}" in found[0].message


def test_a_text_with_the_beginning_of_a_reference_is_the_value_of_a_parameter() -> None:
    """As the refusal says; and the definition of a run in a run has its own references and parameters."""
    parameters = {"shell": {"type": "string", "default": "${HOME"}}
    inner = {"parameters": parameters, "steps": [step("a", parameters={"x": "${pipeline.shell}"})]}
    compiled(
        step("a", parameters={"x": "${pipeline.shell}"}),
        step("b", kind="run", spec={"pipeline": inner}),
        parameters=parameters,
    )


def test_a_field_that_steps_have_elsewhere_is_refused_with_the_one_they_have_here() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"inputs": ["prepare"]}, "did you mean 'needs'? inputs are artifacts"),
        ({"inputs": "prepare"}, "such as {data: ${STEP.artifacts.data}}, got str"),
    ]
    for name, ours in STEP_NAMES.items():
        cases.append(({name: ["prepare"]}, f"unknown field {name!r}; did you mean {ours!r}?"))
    for fields, expected in cases:
        steps = [step("prepare"), step("train", **fields)]
        found = command_of(StartPipelineRun.wire_type(), {"pipeline": {"steps": steps}})
        assert isinstance(found, Problem)
        assert found.path == f"$.pipeline.steps[1].{next(iter(fields))}"
        assert expected in found.message


def test_a_name_with_a_dot_a_part_of_a_parameter_and_a_model_in_an_expression_are_accepted() -> None:
    compiled(
        step("a"),
        step("b", parameters={"file": "${a.artifacts.model\\.onnx}", "size": "${pipeline.sizes.0}"}),
        step("c", repeat={"until": "a.models.output[-1].name == 'x'", "times": 2}),
        parameters={"sizes": {"type": "array", "default": [1]}},
    )


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        ("prepar.id == 1", "unknown_step", "there is no 'prepar' here; did you mean 'prepare'?"),
        ("to-do.id == 1", "unknown_step", "write steps['to-do'] for 'to-do'"),
        ("prepare.results.x", "bad_reference", "did you mean 'result'?"),
        ("prepare", "bad_reference", "names no kind"),
        ("steps", "bad_expression", "steps['NAME']"),
        ("steps[0].id", "bad_expression", "steps['NAME']"),
        ("steps[prepare.id].id", "bad_expression", "steps['NAME']"),
        ("steps['pipeline'].rows", "unknown_step", "there is no 'pipeline' here"),
        ("steps['prepar'].id", "unknown_step", "did you mean 'prepare'?"),
        ("pipeline.row > 1", "unknown_parameter", "did you mean 'rows'?"),
        ("pipeline", "bad_reference", "names no parameter"),
        ("item > 1", "unknown_step", "there is no 'item' here"),
        ("succeeded > 1", "unknown_step", "there is no 'succeeded' here"),
        ("result.x > 1", "unknown_step", "there is no 'result' here"),
        ("prepare.id.upper()", "bad_expression", "methods are not available"),
        ("prepare.__class__", "bad_reference", "unknown kind '__class__'"),
        ("prepare.result.x = 1", "bad_expression", "did you mean '=='?"),
        ("${prepare.result.x} > 1", "bad_expression", "names in an expression are written without ${}"),
    ],
)
def test_an_expression_that_names_nothing_is_refused(text: str, code: str, expected: str) -> None:
    found = problems(
        step("prepare"), step("to-do"), step("train", when=text), parameters={"rows": {"default": 1}}
    )
    assert {(problem.code, problem.path) for problem in found} >= {(code, "$.steps[2].when")}
    assert any(expected in problem.message for problem in found)


def misread(*steps: dict[str, Any]) -> Problem:
    with pytest.raises(ValidationError) as caught:
        pipeline(*steps)
    [problem] = problems_of(caught.value, (), {"steps": list(steps)})
    return problem


@pytest.mark.parametrize("name", [*RESERVED, "a.b", "", "-a", "a b", "a/b", "${a}"])
def test_a_reserved_or_dotted_name_is_refused(name: str) -> None:
    """P31: a step with a dot in its name could be added to the original, but not referenced."""
    problem = misread(step(name))
    assert problem.path == "$.steps[0].name"
    assert problem.code == ("bad_step_name" if name in (*RESERVED, "a.b") else problem.code)
    assert problem.code in REFUSAL_CODES


def test_a_step_has_a_kind_and_lists_of_needs_and_of_so_many_items_at_most() -> None:
    problem = misread(step("a"), step("b", needs="a"))
    assert (problem.code, problem.path) == ("wrong_type", "$.steps[1].needs")
    assert problem.message.startswith("expected a list of steps, such as [a], or an object with all")
    assert [problem.code for problem in problems({"name": "a"})] == ["bad_step"]
    assert places(step("a"), defaults={"service": True}) == {("bad_service", "$.defaults.service")}
    compiled(step("a", each=list(range(10_000))))
    [problem] = problems(step("a", each=list(range(10_001))))
    assert (problem.code, problem.path) == ("too_many_items", "$.steps[0].each")
    assert "10,001" in problem.message


def test_steps_share_no_defaults() -> None:
    """P2: the defaults were shared objects in the original."""
    one, other = pipeline(step("a"), step("b")).steps
    one.parameters["x"] = 1
    one.needs.all.append("b")
    one.mirror.metrics["x"] = "y"
    assert (other.parameters, other.needs.all, other.mirror.metrics) == ({}, [], {})
    assert pipeline(step("a")).steps[0].needs.all == []


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"task_type": "x", "kind": "search", "spec": {}}, ("bad_step", "")),
        ({"task_type": "x", "spec": {}}, ("bad_step", ".spec")),
        ({"kind": "search", "spec": []}, ("wrong_type", ".spec")),
        ({"kind": "search", "spec": "x ${pipeline.x}"}, ("wrong_type", ".spec")),
        ({"kind": "search", "spec": {}, "parameters": {"x": 1}}, ("bad_step", ".parameters")),
        ({"kind": "search", "spec": {}, "queue": "q"}, ("bad_step", ".queue")),
        ({"kind": "search", "spec": {}, "run_timeout_s": 1}, ("bad_step", ".run_timeout_s")),
        ({"kind": "search", "spec": {}, "cache": True}, ("bad_step", ".cache")),
        ({"gate": {}, "each": [1]}, ("bad_step", ".each")),
        ({"gate": {}, "priority": 1}, ("bad_step", ".priority")),
        ({"gate": {}, "repeat": {"until": "true", "times": 1}}, ("bad_step", ".repeat")),
        ({"at_once": 1}, ("bad_step", ".at_once")),
        ({"collect": "failed == 0"}, ("bad_step", ".collect")),
        ({"each": [1], "cache": True}, ("bad_step", ".cache")),
        ({"each": [1], "repeat": {"until": "true", "times": 1}}, ("bad_step", ".repeat")),
        ({"each": "x"}, ("wrong_type", ".each")),
        ({"each": "${pipeline.x} y"}, ("wrong_type", ".each")),
        *(({"each": {"x": 1}}, ("wrong_type", ".each")), ({"each": 3}, ("wrong_type", ".each"))),
        ({"each": ["${item}"]}, ("bad_reference", ".each[0]")),
        ({"queue": {"x": 1}}, ("wrong_type", ".queue")),
        ({"queue": "a b"}, ("bad_identifier", ".queue")),
        ({"inputs": {"m": "a/b/c"}}, ("wrong_type", ".inputs.m")),
        ({"inputs": {"m": "${pipeline.x} y"}}, ("wrong_type", ".inputs.m")),
        ({"inputs": {"m": [1]}}, ("wrong_type", ".inputs.m")),
        ({"inputs": {"m": {**ARTIFACT, "size_bytes": "7"}}}, ("wrong_type", ".inputs.m.size_bytes")),
        ({"inputs": {"m": {**ARTIFACT, "sha256": "x"}}}, ("bad_digest", ".inputs.m.sha256")),
    ],
)
def test_what_does_not_go_with_a_kind_of_step_is_refused(fields: dict[str, Any], place: Any) -> None:
    assert places(step("a", **fields), parameters={"x": {"default": 1}}) == {
        (place[0], f"$.steps[0]{place[1]}")
    }


def test_an_input_is_an_artifact_or_a_template_of_one_and_whole_values_may_be_references() -> None:
    part = ARTIFACT | {"uri": "${a.result.uri}", "size_bytes": "${a.result.size}"}
    inputs = {"whole": ARTIFACT, "part": part, "all": "${a.artifacts.model}"}
    compiled(
        step("a"),
        step("b", inputs=inputs, queue="gpu-${a.result.size}"),
        step("c", queue="${a.result.queue}"),
        step("d", queue="night.1"),
        step("e", each="${a.result.items}", parameters={"x": "${item}"}),
        step("f", kind="search", spec="${a.result.spec}"),
    )
