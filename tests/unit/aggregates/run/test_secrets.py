"""Secrets that only the values of references make: their step fails before anything of them is in the log."""

from typing import Any

import pytest

from tests.unit.aggregates.given import of_kind
from tests.unit.aggregates.run.given import RunLog, started, step
from tests.unit.domain.given import STREAM
from trackside.aggregates.run.messages import RetryFailedSteps, RunEnded
from trackside.aggregates.run.step_messages import StepEnded, StepReady, StepState
from trackside.contracts.wire.secret_search import secrets_in

WORD = "hunter2hunter2"
TEXT = {"type": "string"}
SPACE = {"x": {"type": "uniform", "low": 0, "high": 1}}


def secrets_of(log: RunLog) -> list[object]:
    """Returns what the events that dispatchers have written have of secrets."""
    return [place for event in log.written for place in secrets_in(event.model_dump(mode="json"))]


def given(*steps: Any, key: Any = WORD, **fields: Any) -> RunLog:
    return started(*steps, schemas={"key": {}}, parameters={"key": key}, **fields)


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"parameters": {"password": "${pipeline.key}"}}, "$.parameters.password"),
        ({"parameters": {"options": [{"api-key": "${pipeline.key}"}]}}, "$.parameters.options[0].api-key"),
        ({"parameters": {"api_key": ["${pipeline.key}"]}}, "$.parameters.api_key[0]"),
        ({"parameters": {"password": "${a.result.no:-hunter2}${pipeline.key}"}}, "$.parameters.password"),
        ({"parameters": {"url": "s3://me:${pipeline.key}@host/b"}}, "$.parameters.url"),
        ({"parameters": {"password": "${a.result.word}"}}, "$.parameters.password"),
        ({"parameters": {"password": "${a.parameters.word}"}}, "$.parameters.password"),
        ({"each": ["${pipeline.key}"], "parameters": {"password": "${item}"}}, "$.parameters.password"),
        ({"each": [{"password": "${pipeline.key}"}]}, "$.items[0].password"),
        ({"each": "${a.result.list}", "parameters": {"password": "${item}"}}, "$.parameters.password"),
        ({"when": "'AKIA' + a.result.rest"}, "$.when"),
        ({"cache": True, "parameters": {"password": "${pipeline.key}"}}, "$.parameters.password"),
        (
            {"kind": "search", "spec": {"space": SPACE, "name": "s3://me:${pipeline.key}@host/b"}},
            "$.spec.name",
        ),
        (
            {
                "kind": "batch",
                "spec": {
                    "groups": [
                        {"tasks": [{"task_type": "noop", "parameters": {"password": "${pipeline.key}"}}]}
                    ]
                },
            },
            "$.spec.groups[0].tasks[0].parameters.password",
        ),
        (
            {
                "kind": "run",
                "spec": {"parameters": {"db_password": "${pipeline.key}"}, "pipeline": {"steps": []}},
            },
            "$.spec.parameters.db_password",
        ),
    ],
)
def test_a_step_whose_values_are_a_secret_fails_with_its_place_and_nothing_else_does(
    fields: Any, place: str
) -> None:
    log = given(step("a", parameters={"word": WORD}), step("b", "a", **fields), step("c", "a"))
    log.finish("a", {"word": WORD, "rest": "IOSFODNN7EXAMPLE", "list": ["x", WORD]})
    ended = log.run.steps["b"]
    assert (ended.state, ended.kind) == (StepState.FAILED, "secret_suspected")
    assert ended.error is not None and ended.error.message.startswith(f"{place} looks like a secret")
    assert WORD not in ended.error.message
    written = [event for event in log.written if getattr(event, "step", "") == "b"]
    assert [type(event) for event in written] in ([StepReady, StepEnded], [StepReady, StepReady, StepEnded])
    assert WORD not in "".join(event.model_dump_json() for event in written)
    assert not [name for name in log.submitted if name.startswith("b")]
    assert not secrets_of(log)
    log.finish("c")
    assert log.run.over


def test_a_reference_to_a_secret_goes_through_and_a_retry_may_name_one() -> None:
    named = {"secret": "wandb-2026"}
    log = given(step("a", parameters={"password": "${pipeline.key}"}), key=named)
    assert log.stream.tasks[f"{STREAM}.a"].parameters == {"password": named}
    assert not secrets_of(log)
    for name in ("password", "api_key"):
        parameters = {name: f"${{pipeline.{name}}}"}
        log = started(step("a", parameters=parameters), schemas={name: {}}, parameters={name: named})
        assert log.stream.tasks[f"{STREAM}.a"].parameters == {name: named}
    log = given(step("a", parameters={"password": "${pipeline.key}"}))
    assert log.states == {"a": "failed"}
    log.command(RetryFailedSteps.model_validate({"patch": {"a": {"parameters": {"password": named}}}}))
    assert log.stream.tasks[f"{STREAM}.a.g1"].parameters == {"password": named}


def test_the_items_of_a_step_are_all_looked_at_before_one_begins_also_when_it_is_retried() -> None:
    log = given(
        step("a", each="${pipeline.key}", parameters={"password": "${item}"}, at_once=1),
        key=["short", "x", WORD],
    )
    assert log.states == {"a": "failed"}
    assert log.submitted == []


def test_a_repeated_step_that_comes_to_a_secret_fails_instead_of_waiting_for_ever() -> None:
    log = given(
        step("a"),
        step(
            "b",
            parameters={"url": "sk_live_${pipeline.key}${index}"},
            repeat={"until": "result.ok", "times": 20},
        ),
        key="a1B2c3D4e5F6g7H8i9",
    )
    for number in range(10):
        log.finish(f"b.{number}", {"ok": False})
    assert (log.run.steps["b"].state, log.run.steps["b"].kind) == (StepState.FAILED, "secret_suspected")
    assert not secrets_of(log)


@pytest.mark.parametrize(
    "fields",
    [
        {"repeat": {"until": "'AKIA' + result.rest", "times": 2}},
        {"each": [1], "collect": "'AKIA' + pipeline.key"},
    ],
)
def test_the_value_of_an_expression_is_not_in_the_log_if_it_is_a_secret(fields: Any) -> None:
    log = given(step("a", **fields), key="IOSFODNN7EXAMPLE")
    log.finish("a.0", {"rest": "IOSFODNN7EXAMPLE"})
    assert (log.run.steps["a"].state, log.run.steps["a"].kind) == (StepState.FAILED, "secret_suspected")
    assert not secrets_of(log)


def test_outputs_are_redacted_and_the_run_succeeds() -> None:
    log = given(
        step("a"),
        outputs={
            "db_password": "${pipeline.key}",
            "all": {"token": "${a.result.word}", "rows": "${a.result.rows}"},
            "url": "s3://me:${pipeline.key}@host/b",
        },
    )
    log.finish("a", {"word": "a1b2c3d4e5f6a7b8", "rows": 7})
    (end,) = of_kind(RunEnded, log.written)
    assert end.status.value == "SUCCEEDED"
    assert end.outputs == {
        "db_password": "[redacted]",
        "all": {"token": "[redacted]", "rows": 7},
        "url": "s3://[redacted]@host/b",
    }
    assert not secrets_of(log)
