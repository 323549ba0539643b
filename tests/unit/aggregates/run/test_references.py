"""References of steps: values of folded state, of their own type, filled in once."""

from typing import Any

import pytest

from tests.unit.aggregates.run.given import DIGEST, RunLog, started, step
from tests.unit.domain.given import STREAM
from trackside.aggregates.run.messages import RetryFailedSteps, RunStatus
from trackside.aggregates.run.step_messages import StepResolved
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded


def parameters(log: RunLog, name: str) -> Any:
    return log.stream.tasks[f"{STREAM}.{name}"].parameters


def resolved(*, result: Any = None, given: Any = None, **second: Any) -> RunLog:
    log = started(step("a", parameters=given or {"lr": 0.1}), step("b", **second))
    log.finish("a", result, table="file", net="model")
    return log


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("${a.result.n}", 3),
        ("${a.result.nested.list.-1}", True),
        ("n=${a.result.n}, ${a.result.text}", "n=3, x"),
        ("${a.id}", f"{STREAM}.a"),
        ("${a.status}", "succeeded"),
        ("${a.parameters.lr}", 0.1),
        ("${a.artifacts.table.sha256}", DIGEST),
        ("${a.artifacts.table.size_bytes}", 8),
        ("${a.artifacts.table.kind}", "file"),
        ("${a.models.output.0.name}", "net"),
        ("${a.models.output.-1.uri}", f"store:sha256/{DIGEST}"),
    ],
)
def test_a_reference_has_the_value_and_the_type_of_what_it_names(template: Any, value: Any) -> None:
    result = {"n": 3, "text": "x", "nested": {"list": [1, 2.5, None, True]}}
    log = resolved(result=result, parameters={"x": template})
    assert parameters(log, "b") == {"x": value}


def test_a_section_of_parameters_is_part_of_the_name() -> None:
    """P7: `Section/name`, as ClearML writes it, and as a path."""
    given = {"Args/lr": 0.1, "net": {"depth": 3}, "dotted.name": 7}
    template = {"x": "${a.parameters.Args/lr}", "y": "${a.parameters.net/depth}"}
    template |= {"z": "${a.parameters.dotted.name}"}
    log = resolved(given=given, parameters=template)
    assert parameters(log, "b") == {"x": 0.1, "y": 3, "z": 7}


def test_an_artifact_may_be_an_input_and_a_queue_a_reference_unless_it_is_no_name() -> None:
    more = {"queue": "${a.result.queue}", "inputs": {"data": "${a.artifacts.table}"}}
    log = resolved(result={"queue": "gpu"}, **more)
    task = log.stream.tasks[f"{STREAM}.b"]
    assert (task.inputs["data"].sha256, task.inputs["data"].size_bytes) == (DIGEST, 8)
    assert task.needs.queue == "gpu"
    assert resolved(result={"queue": "no name"}, queue="${a.result.queue}").states["b"] == "failed"


def test_the_models_that_a_step_was_given_can_be_referenced() -> None:
    log = started(
        step("a"),
        step("b", inputs={"net": "${a.artifacts.net}"}),
        step("c", parameters={"x": "${b.models.input.0.name}"}),
    )
    log.finish("a", net="model")
    log.finish("b")
    assert parameters(log, "c") == {"x": "net"}


def test_what_a_step_refers_to_is_in_the_log_with_the_events_that_it_comes_from() -> None:
    log = resolved(result={"n": 3}, parameters={"x": "${a.result.n}"})
    (event,) = (event for event in log.written if isinstance(event, StepResolved))
    ended_at = next(record.offset for record in log.records if isinstance(record.message, AttemptEnded))
    sources = {"${a.result.n}": f"{STREAM}@{ended_at}"}
    assert event == StepResolved(step="b", values={"${a.result.n}": 3}, sources=sources)


def test_a_reference_without_a_value_fails_its_step_and_nothing_else() -> None:
    """P12: the run goes on; a missing key is never the text `None`."""
    for template, message in (
        ("${a.result.m}", "${a.result.m}: a.result has no 'm': it has n"),
        ("${a.artifacts.none}", "${a.artifacts.none}: step a has saved no artifact 'none'"),
        ("${a.models.output.5.uri}", "${a.models.output.5.uri}: a.models.output has 1 items, none at 5"),
        ("${a.parameters.m}", "${a.parameters.m}: a.parameters has no 'm': it has lr"),
    ):
        log = started(step("a", parameters={"lr": 1}), step("b", parameters={"x": template}), step("c", "a"))
        log.finish("a", {"n": 3}, net="model")
        error = log.run.steps["b"].error
        assert error is not None
        assert error.code == "ref_error"
        assert error.message.startswith(message)
        assert (log.states["b"], log.states["c"]) == ("failed", "queued")


def test_values_that_do_not_fit_a_record_fail_the_step_and_nothing_else() -> None:
    large = "x" * 60_000
    log = started(
        step("a"),
        step("b", parameters={str(number): "${a.result.large}" for number in range(9)}),
        step("c", parameters={str(n): f"${{a.result.parts.{n}}}" for n in range(5)}),
        step("d", "a"),
    )
    log.finish("a", {"large": large, "parts": [large + str(number) for number in range(5)]})
    ends = {name: log.run.steps[name].kind for name in "bc"}
    assert (ends, log.states["d"]) == ({"b": "values_too_large", "c": "values_too_large"}, "queued")


@pytest.mark.parametrize("name", ["__class__", "keys", "model_dump", "get"])
def test_only_keys_of_json_are_attributes(name: str) -> None:
    log = resolved(result={"n": 3}, parameters={"x": f"${{a.artifacts.table.{name}}}"})
    assert log.states["b"] == "failed"
    log = started(step("a"), step("b", "a", when=f"a.result.{name} == 1"))
    log.finish("a", {"n": 3})
    assert log.states["b"] == "failed"


def test_a_reference_to_a_step_that_failed_and_may_fail_needs_a_default() -> None:
    """P36: it does not become null."""
    log = started(
        step("a", on_end="continue"),
        step("b", parameters={"x": "${a.result.n}"}),
        step("c", parameters={"x": "${a.result.n:-none}", "s": "${a.status}"}),
    )
    log.finish("a", {"n": 3}, end=AttemptEnd.FAILED)
    assert (log.states["b"], parameters(log, "c")) == ("failed", {"x": "none", "s": "failed"})


def test_a_reference_to_a_step_of_an_earlier_life_has_its_value() -> None:
    """P12: from the folded state, also once the task is forgotten and the run was continued."""
    log = started(step("a"), step("b", "a"), step("c", "b", parameters={"x": "${a.result.n}"}))
    log.finish("a", {"n": 3})
    log.finish("b", end=AttemptEnd.FAILED)
    assert log.run.status is RunStatus.FAILED
    assert f"{STREAM}.a" not in log.stream.tasks
    log.command(RetryFailedSteps())
    log.finish("b.g1")
    assert parameters(log, "c.g1") == {"x": 3}
