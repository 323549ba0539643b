"""The simulator bites: guards of the fold of runs, removed one by one."""

from typing import Any

import pytest

from tests.simulation.test_mutants import SEEDS, Mutate, is_noticed
from trackside.aggregates.run import decide, evolve, progress
from trackside.aggregates.run.begin import Room
from trackside.aggregates.run.messages import RunEnded
from trackside.aggregates.run.state import Run
from trackside.aggregates.run.step_messages import StepEnded, StepReady
from trackside.contracts.message import Message, Record
from trackside.domain.outcome import Outcome
from trackside.simulation.config import SimulationConfig
from trackside.simulation.pipeline_scenario import PipelineScenario

pytestmark = pytest.mark.usefixtures("quiet_services")
CONFIG = SimulationConfig(scenario=PipelineScenario, concurrency=2)
KINDS: tuple[type[Message], ...] = (StepReady, StepEnded, RunEnded)
"""The events of which a late one shows in a violation, if readers take it for one that counts."""


def is_found(number: int) -> bool:
    return is_noticed(number, CONFIG)


def test_runs_of_pipelines_have_no_violations_while_all_guards_are_there() -> None:
    assert not any(is_found(number) for number in range(3))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_event_of_a_run_that_counts_although_it_is_late_is_noticed(
    kind: type[Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded = evolve.HANDLERS[kind]

    def lax(run: Run, event: Any, record: Record) -> Outcome:
        guarded(run, event, record)
        return Outcome.APPLIED

    monkeypatch.setitem(evolve.HANDLERS, kind, lax)
    assert any(map(is_found, range(SEEDS))), f"it survived {SEEDS} seeds"


def any_number_is_open(patch: pytest.MonkeyPatch) -> None:
    """The limit of a run is not looked at."""
    may_begin = Run.may_begin

    def lax(run: Run, name: str) -> int | None:
        limit, run.concurrency = run.concurrency, 10_000
        try:
            return may_begin(run, name)
        finally:
            run.concurrency = limit

    patch.setattr(Run, "may_begin", lax)
    patch.setattr(decide, "Room", lambda *_: Room(10_000))


def a_step_waits_for_none(patch: pytest.MonkeyPatch) -> None:
    """What a step needs counts as met with the first of its parents that ends."""
    wait_after = progress.wait_after

    def lax(*arguments: Any) -> Any:
        wait = wait_after(*arguments)
        wait.unmet = 0
        return wait

    patch.setattr(progress, "wait_after", lax)
    patch.setattr(decide, "wait_after", lax)


def a_failed_step_counts_as_succeeded(patch: pytest.MonkeyPatch) -> None:
    """What failed, was aborted or lost doesn't stop those that need it (P19, P20)."""
    patch.setattr(Run, "counts_as_success", lambda *_: True)


@pytest.mark.parametrize(
    "mutate",
    [any_number_is_open, a_step_waits_for_none, a_failed_step_counts_as_succeeded],
    ids=lambda mutate: mutate.__name__,
)
def test_a_rule_of_runs_removed_is_noticed(mutate: Mutate, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)
    assert any(map(is_found, range(SEEDS))), f"it survived {SEEDS} seeds"
