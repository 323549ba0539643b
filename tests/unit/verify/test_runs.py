"""INV-11, and INV-10 and INV-12 of runs: in logs of which a broken fold applies everything."""

from typing import Any

import pytest

from tests.unit.aggregates.run.given import RunLog, started, step
from tests.unit.domain.given import STREAM, record_of
from tests.unit.verify.mutants import Found, lax, verified
from trackside.aggregates.run.messages import RunAbortRequested, RunEnded, RunPaused, RunRevived, RunStatus
from trackside.aggregates.run.step_messages import (
    GateDecided,
    GateOpened,
    StepEnded,
    StepReady,
    StepResolved,
    StepSkipped,
    StepState,
)
from trackside.contracts.envelope.message import Event
from trackside.contracts.envelope.parts import Part
from trackside.contracts.tasks.tasks import AttemptEnd, TaskSubmitted

OF_RUNS = {"INV-10", "INV-11", "INV-12"}


def log_of(end: AttemptEnd = AttemptEnd.FINISHED) -> RunLog:
    """Returns the log of a run of a, b after it, and a gate; only a has ended."""
    log = started(step("a"), step("b", "a"), {"name": "g", "gate": {}}, step("c", "b"), concurrency=1)
    log.finish("a", end=end)
    return log


def found(log: RunLog, *events: Event) -> Found:
    """Returns what is found with these events behind a log, all of which a broken fold applies."""
    records = list(log.records)
    for event in events:
        records.append(record_of(event, len(records), role="dispatcher"))
    findings = verified(records, lax()).finish()
    return [(each.invariant, each.message) for each in findings if each.invariant in OF_RUNS]


def submitted(name: str) -> TaskSubmitted:
    part = Part(kind="step", number=0, name=name)
    return TaskSubmitted(task_id=f"{STREAM}.{name}", task_type="noop", parameters={}, part=part)


def over(name: str, status: StepState = StepState.SUCCEEDED) -> StepEnded:
    return StepEnded(step=name, status=status)


def test_a_log_as_it_is_written_has_no_finding_and_more_at_once_than_a_run_allows_has_one() -> None:
    log = log_of()
    log.finish("b")
    log.command("trackside.approve-gate.v1", {"step": "g"})
    log.finish("c")
    assert log.run.over
    assert found(log) == []
    log = log_of()
    names = [text for name, text in found(log, StepReady(step="c"), submitted("c")) if name == "INV-12"]
    assert names == ["2 tasks and children at once, the concurrency is 1"]


def revived(number: int) -> RunRevived:
    return RunRevived(command_id="c-9", revival=number, reset=["b"])


ENDED, SUCCEEDED = RunEnded(status=RunStatus.FAILED), RunEnded(status=RunStatus.SUCCEEDED)


@pytest.mark.parametrize(
    ("events", "invariant", "message"),
    [
        ((StepReady(step="c"),), "INV-11", "step c is ready before the steps that it needs: b"),
        ((StepReady(step="a"),), "INV-11", "step a is ready already, or has ended"),
        ((submitted("c"),), "INV-11", f"{STREAM}.c begins, and its step is not ready"),
        ((over("b"),), "INV-11", "step b ends with 1 tasks or children that go on"),
        ((over("a"),), "INV-11", "step a ends a second time"),
        ((over("g"),), "INV-11", "step g ends as succeeded, and what it has begun did not"),
        ((GateDecided(step="g", decision="rejected"), over("g")), "INV-11", "step g ends as succeeded"),
        ((GateDecided(step="g", decision="approved"),) * 2, "INV-11", "gate g is not open, or was decided"),
        ((GateDecided(step="c", decision="approved"),), "INV-11", "gate c is not open"),
        ((GateOpened(step="g"),), "INV-11", "step g is not ready, or was told of it already"),
        ((StepResolved(step="c", values={}, sources={}),), "INV-11", "step c is not ready"),
        ((StepSkipped(step="b", by="operator"),), "INV-11", "step b is skipped, and has begun"),
        ((StepSkipped(step="c", by="operator"), StepReady(step="c")), "INV-11", "step c is ready already"),
        ((ENDED,), "INV-10", "1 tasks and children are open"),
        ((ENDED,), "INV-11", "the run ends before its steps: b, g, c"),
        ((ENDED, StepReady(step="c")), "INV-10", "the run is over"),
        ((RunAbortRequested(command_id="c-9"), SUCCEEDED), "INV-11", "the run succeeds, and was stopped"),
        ((RunPaused(command_id="c-9", change=1), StepReady(step="c")), "INV-10", "the run begins nothing"),
        ((revived(1),), "INV-10", "the run is not over"),
        ((ENDED, revived(2)), "INV-10", "it was revived 0 times"),
        ((StepSkipped(step="c", by="operator"), ENDED, revived(1)), "INV-11", "c is kept, and b, which it"),
    ],
)
def test_what_goes_against_the_order_of_steps_is_found(events: Any, invariant: str, message: str) -> None:
    findings = found(log_of(), *events)
    assert [name for name, text in findings if message in text] == [invariant], findings


@pytest.mark.parametrize(
    ("end", "status"), [(AttemptEnd.FAILED, StepState.SUCCEEDED), (AttemptEnd.FINISHED, StepState.FAILED)]
)
def test_a_step_that_ends_otherwise_than_its_task_is_found(end: AttemptEnd, status: StepState) -> None:
    log = log_of(end)
    at = next(at for at, record in enumerate(log.records) if isinstance(record.message, StepEnded))
    log.records[at].message = over("a", status)
    assert ("INV-11", f"step a ends as {status.value}, and what it has begun did not") in found(log)
