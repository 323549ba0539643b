"""Runs just before an event that must be refused, and which test proves which guard."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

from tests.unit.aggregates.run.given import RunLog, started, step
from trackside.aggregates.run.messages import RunEnded, RunStatus
from trackside.aggregates.run.step_messages import StepEnded, StepReady, StepState
from trackside.contracts.envelope.message import Event, Json
from trackside.contracts.envelope.parts import Part
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded, TaskSubmitted
from trackside.domain.outcome import Outcome
from trackside.domain.pipelines.definition import STEP

Proof = Callable[[], None]
PROOFS: dict[str, Proof] = {}
"""The test that fails without a guard, by function and condition of the guard."""


def proves(function: str, *conditions: str) -> Callable[[Proof], Proof]:
    """Notes that a test fails if one of these conditions of a function is removed."""

    def note(test: Proof) -> Proof:
        for condition in conditions:
            assert f"{function}: {condition}" not in PROOFS, f"{function}: {condition} is proved already"
            PROOFS[f"{function}: {condition}"] = test
        return test

    return note


def refuses(log: RunLog, event: Event, outcome: Outcome = Outcome.OVERTAKEN) -> None:
    """Checks that an event that a dispatcher writes has no effect, and changes nothing of the run."""
    before = deepcopy(log.run)
    assert (log.tell(event, role="dispatcher"), log.run) == ([outcome], before)


def write(log: RunLog, *events: Event) -> RunLog:
    for event in events:
        assert log.tell(event, role="dispatcher") == [Outcome.APPLIED], event
    return log


def end_task(log: RunLog, name: str, end: AttemptEnd = AttemptEnd.FINISHED) -> RunLog:
    token = log.place(name)
    log.tell(AttemptEnded.model_validate({**token, "end": end, "result": {"n": 1}}), role="worker")
    return log


def waiting(*steps: Json, ready: Sequence[str] = (), **fields: Any) -> RunLog:
    log = end_task(started(step("x"), *steps, **fields), "x")
    write(log, StepEnded(step="x", status=StepState.SUCCEEDED))
    return write(log, *(StepReady(step=name) for name in ready))


def over(**fields: Any) -> RunLog:
    log = started(step("a"), **fields)
    log.finish("a")
    assert log.run.status is RunStatus.SUCCEEDED
    return log


def ending(revival: int = 0) -> tuple[RunLog, RunEnded]:
    log = end_task(started(step("a")), "a")
    write(log, StepEnded(step="a", status=StepState.SUCCEEDED))
    return log, RunEnded(revival=revival, status=RunStatus.SUCCEEDED)


def pass_until(log: RunLog, ms: int | None) -> None:
    assert ms is not None
    log.next_offset += max(0, ms - log.now_ms)


def task_of(log: RunLog, name: str, index: int = 0, **changed: Any) -> TaskSubmitted:
    part = Part(kind=STEP, number=index, name=name)
    fields = {"task_id": log.run.item_id(name, index), "task_type": "noop", "parameters": {}, "part": part}
    return TaskSubmitted(**{**fields, **changed})
