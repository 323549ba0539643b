"""Definitions as a whole: what is refused, all at once and with its path, and what a compiled one has."""

import hashlib
import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.domain.pipelines.given import TEMPLATES, compiled, pipeline, places, problems, step
from trackside.contracts.envelope.refusals import MAX_PROBLEMS, REFUSAL_CODES, Problem
from trackside.domain.pipelines.compiling import (
    CompiledPipeline,
    compile_pipeline,
    digest,
    needed,
    ordered,
    parameter_values,
    source_of,
    steps_named,
)
from trackside.domain.pipelines.definition import PipelineSpec
from trackside.domain.pipelines.references import parse


def test_references_are_dependencies_in_every_template_and_expression() -> None:
    """P11, P32: a step that refers to another one comes after it, whatever the order in the definition."""
    spec = compiled(
        *(step(name) for name in "abcdefgh"),
        step("i-j"),
        step(
            "one", parameters={"x": [{"y": "${a.id}"}]}, inputs={"m": "${b.artifacts.m}"}, queue="q-${c.id}"
        ),
        step("two", each="${d.result.list}", collect="succeeded > e.result.least"),
        step("three", kind="search", spec={"x": "${f.id}"}),
        step("four", repeat={"until": "result.x > g.result.x and index > 1", "times": 3}),
        step("five", when="steps['i-j'].result.x == steps.h.result.x"),
    )
    needs = {each.name: "".join(needed(each)) for each in spec.steps[9:]}
    assert needs == {"one": "abc", "two": "de", "three": "f", "four": "g", "five": "i-jh"}
    spec = compiled(
        step("train", parameters={"rows": "${prepare.result.rows}"}, when="check.result.ok"),
        step("check", needs=["prepare"]),
        step("prepare"),
    )
    assert needed(spec.steps[0]) == ["prepare", "check"]
    assert ordered(spec.steps) == ["prepare", "check", "train"]
    spec = compiled(step("a"), step("b", needs={"all_ended": ["a"]}, parameters={"x": "${a.result.x:-none}"}))
    assert spec.steps[1].needs.model_dump() == {"all_ended": ["a"]}, "P36: it may have ended in any way"


def test_names_of_an_expression_are_no_steps_and_steps_that_have_such_a_name_are_found() -> None:
    spec = compiled(
        step("result"),
        step("total"),
        step("a", each=[1], collect="total > 0 and result.result.x > 0 and steps.total.result.x > 0"),
        step("b", when="total.result.x > pipeline.x"),
        parameters={"x": {"type": "integer", "default": 1}},
    )
    assert [needed(each) for each in spec.steps] == [[], [], ["result", "total"], ["total"]]


def test_a_cycle_is_named_step_by_step() -> None:
    [problem] = problems(
        step("a", needs=["c"]),
        step("b", parameters={"x": "${a.id}"}),
        step("c", when="b.result.x"),
        step("d"),
    )
    assert problem.code == "pipeline_cycle"
    start = problem.message.removeprefix("steps wait for each other: ").split(" needs ")
    assert start[0] == start[-1]
    around = start[:-1]
    at = around.index("a")
    assert around[at:] + around[:at] == ["a", "c", "b"]
    assert problem.path == f"$.steps[{'abc'.index(start[0])}].needs"
    found = problems(
        step("a", needs=["a"]),
        step("b", parameters={"x": {"y": "${b.id}"}}),
        step("c", when="c.result.x"),
        step("d", repeat={"until": "d.result.x", "times": 2}),
    )
    places_of_itself = [".needs", ".parameters.x.y", ".when", ".repeat.until"]
    assert [(each.code, each.path) for each in found] == [
        ("pipeline_cycle", f"$.steps[{number}]{place}") for number, place in enumerate(places_of_itself)
    ]
    assert "result" in found[3].message


def test_each_cycle_is_named_and_long_ones_are_shortened() -> None:
    ring = [step(f"s{at}", needs=[f"s{(at + 1) % 1_000}"]) for at in range(1_000)]
    found = problems(step("a", needs=["b"]), step("b", needs=["a"]), *ring)
    assert [problem.code for problem in found] == ["pipeline_cycle"] * 2
    assert {"a needs b needs a" in each.message or "b needs a needs b" in each.message for each in found} == {
        True,
        False,
    }
    assert "(981 more)" in max((each.message for each in found), key=len)
    assert max(len(each.message) for each in found) < 400


def test_all_problems_come_at_once_each_with_code_and_path() -> None:
    """P8: the original reported the first one only."""
    found = places(
        step("a", needs=["b"], parameters={"x": "${nowhere.id}", "y": ["${c.artifact.m}"]}),
        step("b", needs=["a", "nowhere"], when="1 +"),
        step("c", kind="search"),
        step("c", gate={"form": {"ok": {"type": "bool"}}}),
        step("e", each=[1], collect="succeded > 1"),
        parameters={"lr": {"type": "number", "default": "x"}},
        outputs={"best": {"id": "${pipeline.rl}"}},
    )
    [cycle] = [each for each in found if each[0] == "pipeline_cycle"]
    assert cycle[1] in ("$.steps[0].needs", "$.steps[1].needs")
    assert found - {cycle} == {
        ("unknown_step", "$.steps[0].parameters.x"),
        ("bad_reference", "$.steps[0].parameters.y[0]"),
        ("unknown_step", "$.steps[1].needs"),
        ("bad_expression", "$.steps[1].when"),
        ("duplicate_step", "$.steps[2].name"),
        ("missing_field", "$.steps[2].spec"),
        ("duplicate_step", "$.steps[3].name"),
        ("bad_schema", "$.steps[3].gate.form.ok"),
        ("unknown_step", "$.steps[4].collect"),
        ("bad_parameters", "$.parameters.lr.default"),
        ("unknown_parameter", "$.outputs.best.id"),
    }


@pytest.mark.parametrize(
    ("value", "code"),
    [
        *((2**53, "out_of_range"), (-(2**70), "out_of_range"), (float("nan"), "not_finite")),
        *((float("-inf"), "not_finite"), ("\ud800", "bad_unicode"), ({"\udfff": 1}, "wrong_type")),
        *(({1: 2}, "wrong_type"), ((1, 2), "wrong_type"), ({1, 2}, "wrong_type"), (b"x", "wrong_type")),
        (object(), "wrong_type"),
    ],
)
def test_what_has_no_canonical_json_is_a_problem_with_its_path(value: object, code: str) -> None:
    """The digest of a definition is that of its canonical JSON (RFC 8785), whose numbers are doubles."""
    inner = {"x": [0, value]}
    assert places(step("a", parameters=inner)) == {(code, "$.steps[0].parameters.x[1]")}
    assert places(step("a", each=[value])) == {(code, "$.steps[0].each[0]")}
    assert places(step("a"), outputs=inner) == {(code, "$.outputs.x[1]")}
    assert places(step("a"), parameters={"p": {"default": value}}) == {(code, "$.parameters.p.default")}
    assert places(step("a", gate={"form": {"f": {"const": value}}})) == {
        (code, "$.steps[0].gate.form.f.const")
    }


def test_deep_json_is_a_problem_and_no_overflow() -> None:
    deep: Any = "x"
    for at in range(31):
        deep = {"$x": deep} if at % 2 else [deep]
    spec = compiled(step("a", parameters={"x": deep}), outputs={"x": deep})
    assert PipelineSpec.model_validate_json(spec.model_dump_json()) == spec
    for _ in range(100_000):
        deep = [deep]
    for found in (
        problems(step("a", parameters={"x": deep})),
        problems(step("a"), outputs={"x": deep}),
        problems(step("a"), parameters={"x": {"default": deep}}),
        problems(step("a", gate={"form": {"x": {"items": deep}}})),
    ):
        assert [problem.code for problem in found] == ["too_deep"]
    _, [problem] = parameter_values({"x": {}}, {"x": deep}, "$")
    assert problem.code == "too_deep"
    while isinstance(deep, list):  # or the interpreter's own way of freeing it overflows
        [deep] = deep


@pytest.mark.thorough
@given(TEMPLATES)
def test_any_json_has_a_digest_that_its_order_does_not_change(template: Any) -> None:
    one = pipeline(step("a", parameters={"x": template, "y": 1}))
    other = pipeline(step("a", parameters={"y": 1, "x": template}))
    assert digest(one) == digest(other)
    found = compile_pipeline(one)
    if isinstance(found, CompiledPipeline):
        assert (found.sha256, source_of(found.pipeline)) == (digest(one), one)
        again = PipelineSpec.model_validate_json(found.pipeline.model_dump_json())
        assert source_of(again) == one


def test_the_digest_is_that_of_canonical_json() -> None:
    """RFC 8785: a version is known by it, also to programs in other languages."""
    canonical = '{"steps":[{"name":"a","parameters":{"é":[1,0.1,"\\n"],"ö":{}},"task_type":"digits"}]}'
    found = pipeline(step("a", parameters={"ö": {}, "é": [1.0, 0.1, "\n"]}))
    assert digest(found) == hashlib.sha256(canonical.encode()).hexdigest()


def test_a_compiled_pipeline_has_the_references_as_trees_and_can_be_read_again() -> None:
    given_ = (step("a"), step("b", parameters={"x": "${a.result.x}"}, inputs={"m": "${a.artifacts.m}"}))
    spec = compiled(*given_, outputs={"x": "${b.result.x:-0}"})
    assert spec.steps[1].parameters == {"x": {"$ref": ["a", "result", "x"]}}
    assert spec.outputs == {"x": parse("${b.result.x:-0}")}
    again = source_of(PipelineSpec.model_validate_json(spec.model_dump_json()))
    assert (again.steps[1].needs.all, again.outputs) == (["a"], {"x": "${b.result.x:-0}"})
    found = compile_pipeline(again)
    assert isinstance(found, CompiledPipeline)
    assert found.pipeline == spec


def test_typed_parameters_keep_their_types_and_defaults_are_filled_in() -> None:
    """P31: the type was only a hint in the original, and every value arrived as a text."""
    schemas: dict[str, Any] = {
        "rows": {"type": "integer", "minimum": 1},
        "rate": {"type": "number", "default": 0.1},
        "sizes": {"type": "array", "items": {"type": "integer"}, "default": [1, 2]},
    }
    values = parameter_values(schemas, {"rows": 3}, "$.parameters")
    assert values == ({"rows": 3, "rate": 0.1, "sizes": [1, 2]}, [])
    _, found = parameter_values(schemas, {"rate": "0.1", "sizes": [1, "x"], "row": 1}, "$.parameters")
    assert [(each.code, each.path.removeprefix("$.parameters.")) for each in found] == [
        ("bad_parameters", "rate"),
        ("unknown_parameter", "row"),
        ("missing_parameter", "rows"),
        ("bad_parameters", "sizes[1]"),
    ]
    assert "did you mean 'rows'?" in found[1].message


@pytest.mark.thorough
def test_ten_times_as_many_steps_take_about_ten_times_as_long_to_compile() -> None:
    few_s, many_s = (compile_chain(count) for count in (1_000, 10_000))
    assert many_s < 30 * few_s  # comparing all with all would take a hundred times as long


def compiling(*steps: dict[str, Any]) -> tuple[Any, float]:
    given_ = pipeline(*steps)
    before_s = time.process_time()
    return compile_pipeline(given_), time.process_time() - before_s


def compile_chain(count: int) -> float:
    steps = [step("s0")]
    for at in range(1, count):
        before = f"s{at - 1}"
        refers = {"parameters": {"x": f"${{{before}.result.x}}"}, "when": f"{before}.result.x > 1"}
        steps.append(step(f"s{at}", needs=[before], **refers))
    found, spent_s = compiling(*steps)
    assert isinstance(found, CompiledPipeline)
    assert ordered(found.pipeline.steps)[-1] == f"s{count - 1}"
    return spent_s


@pytest.mark.thorough
def test_ten_thousand_steps_with_problems_take_no_longer() -> None:
    """Hints compare names with all others: without a limit these would take an hour."""
    steps = [
        step(
            f"step-{at:05}", needs=[f"stap-{at:05}"], parameters={"x": f"${{stop-{at}.id}}"}, when=f"x{at}.id"
        )
        for at in range(10_000)
    ]
    found, spent_s = compiling(*steps)
    assert spent_s < 4
    assert len(found) == MAX_PROBLEMS
    assert "did you mean" in str(found[0])


@pytest.mark.thorough
@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=14))
def test_random_graphs_are_ordered_or_have_a_cycle_that_is_one(edges: list[tuple[int, int]]) -> None:
    needs = {at: sorted({other for one, other in edges if one == at}) for at in range(8)}
    found = compile_pipeline(
        pipeline(*(step(f"s{at}", needs=[f"s{other}" for other in needs[at]]) for at in range(8)))
    )
    if isinstance(found, CompiledPipeline):
        order = ordered(found.pipeline.steps)
        assert sorted(order) == [f"s{at}" for at in range(8)]
        assert all(order.index(f"s{other}") < order.index(f"s{one}") for one, other in edges)
        return
    for problem in found:
        assert problem.code == "pipeline_cycle"
        if problem.message.endswith("itself"):
            continue
        around = problem.message.removeprefix("steps wait for each other: ").split(" needs ")
        assert around[0] == around[-1]
        pairs = pairwise(around)
        assert all((int(one[1:]), int(other[1:])) in edges for one, other in pairs)


@pytest.mark.thorough
@given(TEMPLATES, st.text(max_size=40))
def test_any_template_or_expression_compiles_or_is_refused_with_known_codes(template: Any, text: str) -> None:
    queue = template if template and isinstance(template, str) else None
    templates = {"parameters": {"x": template}, "each": template, "inputs": {"m": template}, "queue": queue}
    of_expressions = pipeline(step("a"), step("b", when=text, each=[1], collect=text))
    of_templates = pipeline(
        step("a", **templates),
        step("b", kind="search", spec=template if template is not None else {}),
        outputs={"x": template},
    )
    for given_ in (of_expressions, of_templates):
        found = compile_pipeline(given_)
        if not isinstance(found, CompiledPipeline):
            assert {problem.code for problem in found} <= REFUSAL_CODES.keys()
            assert all(isinstance(problem, Problem) and problem.path.startswith("$.") for problem in found)
        elif given_ is of_expressions:
            assert set(steps_named(given_.steps[1])) <= {"a"}
