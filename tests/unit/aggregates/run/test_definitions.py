"""Runs whose definitions are odd or wrong: refused when they start, or right until their end."""

import pytest

from tests.unit.aggregates.given import CAPABILITIES as DIGITS
from tests.unit.aggregates.given import problems
from tests.unit.aggregates.pipeline.given import ask, do
from tests.unit.aggregates.run.given import RunLog, refusal, started, step
from tests.unit.domain.given import Told
from trackside.aggregates.pipeline.messages import DefinePipeline
from trackside.aggregates.run.messages import ApproveGate, StartPipelineRun
from trackside.aggregates.run.steps.start import start
from trackside.contracts.envelope.message import Event, Json
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.domain.folding.lookup import Lookup
from trackside.domain.streams.stream import Stream

SEARCH: Json = {"task_type": "noop", "max_trials": 1, "space": {"x": {"type": "choice", "values": [1]}}}


def decided(body: Json) -> list[Event] | Problem | tuple[Problem, ...]:
    return start(Stream("s", 0), StartPipelineRun.model_validate(body), "c", Lookup(DIGITS))


def test_an_unknown_kind_is_refused_when_a_pipeline_is_defined_and_a_spec_that_is_wrong_is_not() -> None:
    """A child of a kind that there is not would never begin, and its run never end."""
    bad = [step("a"), step("b", kind="serach", spec={}), step("c", kind="search", spec={"max_trials": 0})]
    told = Told()
    found = problems(ask(told, DefinePipeline, {"pipeline": {"steps": bad}}))
    assert found == [("unknown_kind", "$.pipeline.steps[1].kind")]
    do(told, DefinePipeline, {"pipeline": {"steps": [step("b", kind="search", spec={})]}})


def test_the_spec_of_a_child_is_checked_as_far_as_it_is_known() -> None:
    found = refusal(step("a", kind="search", spec={**SEARCH, "max_trials": 0}, each=[1, 2]))
    assert found == [("max_trials_range", "$.pipeline.steps[0].spec.max_trials")]
    log = started(step("a", kind="search", spec={**SEARCH, "name": "${item}"}, each=["x"]))
    assert log.states == {"a": "running"}


def test_the_definition_of_a_run_within_a_run_refers_to_its_own_steps() -> None:
    inner = {"steps": [step("x"), step("y", parameters={"v": "${x.id}"}, when="x.result.v > 1")]}
    log = started(
        step("x"),
        step("a", kind="run", spec={"pipeline": inner, "parameters": {}, "seed": "${x.result.seed}"}),
    )
    log.finish("x", {"seed": 7})
    child = log.streams.by_id["digits-1.a"].root
    assert child is not None
    assert (child.spec.steps[1].parameters, child.seed) == ({"v": {"$ref": ["x", "id"]}}, 7)
    wrong = {"steps": [step("y", parameters={"v": "${x.id}"})]}
    assert refusal(step("x"), step("a", kind="run", spec={"pipeline": wrong})) == [
        ("unknown_step", "$.pipeline.steps[1].spec.pipeline.steps[0].parameters.v")
    ]


@pytest.mark.thorough
def test_a_definition_over_the_size_of_a_decision_is_refused_with_what_to_do_and_the_next_one_runs() -> None:
    """10,000 steps one after another, which take more than one decision may have."""
    steps = [step(f"s{at}", *([f"s{at - 1}"] if at else []), task_type="digits") for at in range(10_000)]
    found = decided({"pipeline": {"steps": steps}})
    assert isinstance(found, tuple)
    ((code, path, message),) = [(each.code, each.path, each.message) for each in found]
    assert (code, path) == ("too_long", "$.pipeline")
    assert "bytes, the limit is 524,288: make steps that are alike one step with `each`" in message
    assert "child pipelines" in message
    assert isinstance(decided({"pipeline": {"steps": steps[:8_000]}}), list)


def test_all_that_is_wrong_with_a_run_is_named_at_once() -> None:
    for wrong, overrides, expected in (
        (
            step("a", "b", task_type="nope"),
            {"c": {"parameters": {"x": 1}}},
            [
                ("unknown_step", "$.overrides.c"),
                ("unknown_step", "$.pipeline.steps[0].needs"),
                ("unknown_task_type", "$.pipeline.steps[0].task_type"),
            ],
        ),
        (  # it has no digest, whatever overrides it
            step("a", task_type="digits", parameters={"x": 2**60}),
            {"a": {"parameters": {"x": 1}}},
            [("out_of_range", "$.pipeline.steps[0].parameters.x")],
        ),
    ):
        found = decided({"pipeline": {"steps": [wrong]}, "overrides": overrides})
        assert isinstance(found, tuple)
        assert [(problem.code, problem.path) for problem in found] == expected


@pytest.mark.parametrize(
    ("expression", "state"),
    [
        ("a.models.output[-1].name == 'best'", "queued"),
        ("a.models.output[0].size_bytes > 8", "skipped"),
        ("len(a.models.output[0].sha256) == 64", "queued"),
        ("a.models.input[0].name == 'x'", "failed"),
        ("a.artifacts.best.version == 1", "queued"),
        ("a.parameters.lr < 1", "queued"),
        ("a.status == 'succeeded' and a.id == 'digits-1.a'", "queued"),
        ("a.result.rows[0] == 5", "queued"),
        ("a.result.none == 5", "failed"),
        ("a.result.rows", "failed"),
    ],
)
def test_an_expression_sees_all_that_a_reference_does(expression: str, state: str) -> None:
    log = started(step("a", parameters={"lr": 0.1}), step("b", when=expression))
    log.finish("a", {"rows": [5]}, best="model")
    assert log.states["b"] == state


@pytest.mark.parametrize("kind", ["artifacts.x", "models.output[0].name", "parameters.x"])
def test_what_a_step_does_not_have_fails_the_step_that_refers_to_it_and_nothing_else(kind: str) -> None:
    after = [step(name, when=f"{before}.{kind} == 1") for name, before in (("b", "gate"), ("c", "none"))]
    log = started(step("gate", gate={}), step("none", each=[]), *after)
    log.command(ApproveGate(step="gate"))
    assert (log.states["b"], log.states["c"], log.states["gate"]) == ("failed", "failed", "succeeded")


def test_the_counts_of_states_have_those_in_which_no_item_ended() -> None:
    for collect, state in (
        ("states.failed == 0", "succeeded"),
        ("states.timed_out + states.lost > 0", "failed"),
        ("states['succeeded'] == total", "succeeded"),
    ):
        log = started(step("a", each=[1, 2], collect=collect))
        log.finish("a.0")
        log.finish("a.1")
        assert log.states["a"] == state, collect


def test_parameters_whose_names_begin_with_a_dollar_arrive_as_they_are() -> None:
    log = RunLog()
    spec = {"steps": [step("a", parameters={"$ref": ["a"], "x": "${pipeline.p}"})], "parameters": {"p": {}}}
    log.command(StartPipelineRun.wire_type(), {"pipeline": spec, "parameters": {"p": "${a.id}"}})
    [task] = [event for event in log.written if isinstance(event, TaskSubmitted)]
    assert task.parameters == {"$ref": ["a"], "x": "${a.id}"}
