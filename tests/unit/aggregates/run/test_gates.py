"""Gates: steps that wait for a person."""

import pytest

from tests.unit.aggregates.run.given import RunLog, started, step
from tests.unit.aggregates.run.test_steps import refused
from tests.unit.domain.given import STREAM
from trackside.aggregates.run.messages import AbortPipelineRun, ApproveGate, RejectGate, RunStatus
from trackside.aggregates.run.step_messages import GateDecided, GateOpened, StepEnded, StepState
from trackside.contracts.streams.commands import CommandRefused

FORM = {"note": {"type": "string", "default": "none"}, "level": {"type": "integer", "minimum": 1}}


def opened(**gate: object) -> RunLog:
    return started(
        step("release", gate={"message": "Release it?", "form": FORM, **gate}),
        step("after", "release", parameters={"level": "${release.result.level}"}),
    )


def test_an_approved_gate_says_who_and_its_form_has_the_types_of_its_schemas() -> None:
    log = opened()
    assert GateOpened(step="release", message="Release it?") in log.written
    assert log.states == {"release": "running", "after": "pending"}
    events = log.command(ApproveGate(step="release", inputs={"level": 3}, actor="ada"))
    said = {"inputs": {"level": 3, "note": "none"}, "actor": "ada", "command_id": f"c-{log.commands}"}
    assert GateDecided.model_validate({"step": "release", "decision": "approved", **said}) in events
    assert log.stream.tasks[f"{STREAM}.after"].parameters == {"level": 3}


def test_a_gate_that_is_answered_with_another_form_is_refused_and_stays_open() -> None:
    for inputs, problem in (
        ({}, ("missing_parameter", "$.inputs.level")),
        ({"level": "high"}, ("bad_parameters", "$.inputs.level")),
        ({"level": 0}, ("bad_parameters", "$.inputs.level")),
        ({"level": 1, "color": "red"}, ("unknown_parameter", "$.inputs.color")),
    ):
        log = opened()
        (event,) = log.command(ApproveGate(step="release", inputs=inputs))
        assert isinstance(event, CommandRefused)
        assert (event.code, event.path) == problem
        log.command(ApproveGate(step="release", inputs={"level": 1}))
        assert log.states["release"] == "succeeded"


def test_a_rejected_gate_fails_and_that_of_an_aborted_run_is_closed_and_what_follows_is_omitted() -> None:
    log = opened()
    log.command(RejectGate(step="release", reason="not good enough", actor="ada"))
    assert log.states == {"release": "failed", "after": "omitted"}
    assert (log.run.steps["release"].kind, log.run.status) == ("rejected", RunStatus.FAILED)
    log = opened(timeout_s=60)
    log.command(AbortPipelineRun())
    assert log.states == {"release": "omitted", "after": "omitted"}
    assert (log.run.status, log.run.open_gates) == (RunStatus.ABORTED, {})


def test_a_gate_is_answered_once_before_its_deadline() -> None:
    approve, log = ApproveGate(step="release", inputs={"level": 1}), opened()
    log.command(approve)
    for again in (approve, RejectGate(step="release")):
        assert refused(log.command(again)) == ("gate_decided", "$.step")
    log = opened(timeout_s=60)
    gate = log.run.steps["release"].gate
    assert gate is not None
    assert gate.due_ms == gate.opened_ms + 60_000
    events = log.overdue(gate.due_ms)
    assert StepEnded(step="release", status=StepState.TIMED_OUT, kind="expired") in events
    assert log.states["after"] == "omitted"
    assert refused(log.command(approve)) == ("already_terminal", "$partitionkey")


@pytest.mark.parametrize(
    ("name", "code"), [("after", "not_a_gate"), ("relaese", "unknown_step"), ("second", "gate_not_open")]
)
def test_what_is_no_open_gate_is_not_approved(name: str, code: str) -> None:
    log = started(step("release", gate={}), step("after", "release"), step("second", "after", gate={}))
    assert refused(log.command(ApproveGate(step=name))) == (code, "$.step")
