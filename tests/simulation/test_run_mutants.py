"""The simulator bites: guards of the fold of runs, removed one by one; a direct test proves each besides."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.simulation.guards import Guard, guards_of, unguarded
from tests.simulation.test_mutants import SEEDS, Mutate, each_of, is_noticed
from tests.unit.aggregates.run import test_guards_of_items, test_guards_of_runs, test_guards_of_steps
from tests.unit.aggregates.run.mutants import any_number_is_open
from tests.unit.aggregates.run.proofs import PROOFS
from trackside.aggregates.run import decide, evolve
from trackside.aggregates.run.state import Run
from trackside.aggregates.run.steps import progress, step_events
from trackside.simulation.config import SimulationConfig
from trackside.simulation.scenarios.pipeline_scenario import PipelineScenario

pytestmark = pytest.mark.usefixtures("quiet_services")
CONFIG = SimulationConfig(scenario=PipelineScenario, concurrency=2)
DIRECT_TESTS = (test_guards_of_runs, test_guards_of_steps, test_guards_of_items)
ADMISSIONS = ("admits", "admits_child", "_admits_check", "_admits_item")
GUARDS: dict[str, Guard] = {
    guard.name: guard
    for guard in (
        *guards_of(evolve),
        *guards_of(step_events),
        *guards_of(progress, ADMISSIONS),
        *guards_of(Run, ("may_begin",)),
    )
}
KEPT: Mapping[str, str] = {
    "_repeated: WORKING": "_step_in takes states; only a step of these states is among those finished",
}
"""The guards that refuse nothing which another one would not refuse as well, and why they stay."""
FOUND_BY: Mapping[str, int] = {
    "_admits_item: run.may_begin(name) == index": 42,
    "_archived: record.append_time_ms < event.due_ms": 29,
    "_ended: run.over": 9,
    "_paused: _changed(run, event.change, record)": 2,
    "_ready: (StepState.PENDING,)": 9,
    "_resumed: _changed(run, event.change, record)": 3,
    "_step_in: step.state in states": 9,
}
"""The guards without which the simulator finds a violation, each with a seed that does.

Without one condition of the others, another one refuses what services write; or nothing that they write in a
simulation needs it, as no two of them decide different commands at once. Their direct tests do.
"""
UNGUARDED: dict[str, Guard] = {guard.function: guard for guard in unguarded(GUARDS.values())}
FOUND_WITHOUT_ALL: Mapping[str, int] = {"_gate_decided": 57, "_repeated": 24}
"""The functions of which the simulator finds that no condition is left, though not that one is missing."""
SIMULATED = [*FOUND_BY.items(), *FOUND_WITHOUT_ALL.items()]


def test_each_guard_of_runs_has_a_proof() -> None:
    assert sorted([*PROOFS, *KEPT]) == sorted(GUARDS), (
        "name each guard in @proves of the direct test that needs it"
    )
    assert FOUND_BY.keys() <= GUARDS.keys()
    owners = {test.__module__ for test in PROOFS.values()}
    assert owners == {module.__name__ for module in DIRECT_TESTS}


@pytest.mark.parametrize("name", sorted(GUARDS.keys() - KEPT.keys()))
def test_a_guard_removed_is_noticed_by_its_direct_test(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PROOFS[name]()
    GUARDS[name].remove(monkeypatch, evolve.HANDLERS)
    with pytest.raises((AssertionError, AttributeError, KeyError, TypeError)):  # as it is, or as what follows
        PROOFS[name]()


@pytest.mark.long
def test_runs_of_pipelines_have_no_violations_while_all_guards_are_there() -> None:
    assert [number for number in sorted({seed for _, seed in SIMULATED}) if is_noticed(number, CONFIG)] == []


@pytest.mark.long
@pytest.mark.parametrize(("name", "seed_that_finds"), SIMULATED, ids=lambda given: str(given))
def test_a_guard_removed_is_noticed_by_the_simulator(
    name: str, seed_that_finds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = GUARDS.get(name) or UNGUARDED[name]
    guard.remove(monkeypatch, evolve.HANDLERS)
    seeds = (seed_that_finds, *range(SEEDS))  # a change of any service makes another run of a seed
    assert any(is_noticed(number, CONFIG) for number in seeds), f"it survived {SEEDS} seeds"


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


MUTANTS: Mapping[Mutate, SimulationConfig] = dict.fromkeys(
    (a_failed_step_counts_as_succeeded, any_number_is_open, a_step_waits_for_none), CONFIG
)


@pytest.mark.parametrize(("mutate", "config"), each_of(MUTANTS, [a_failed_step_counts_as_succeeded]))
def test_a_rule_of_runs_removed_is_noticed(
    mutate: Mutate, config: SimulationConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    assert any(is_noticed(number, config) for number in range(SEEDS)), f"it survived {SEEDS} seeds"
