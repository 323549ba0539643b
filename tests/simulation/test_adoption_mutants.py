"""The simulator bites: rules of the adoption of attempts by a later incarnation of their worker, removed."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.simulation.test_mutants import Mutate, after, each_of, reports_of_the_trial_before_count
from tests.unit.simulation.adopting import KILLS_ONLY, WorkersKilledOften
from trackside.contracts.envelope.message import Record
from trackside.contracts.tasks.tasks import AttemptAdopted, AttemptEnd
from trackside.domain.fleet.fleet import Fleet
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import Proposal
from trackside.domain.tasks import task_acceptance, task_events, task_reuse
from trackside.domain.tasks.task import Task
from trackside.scheduler import decide
from trackside.scheduler.planning.cluster_state import ClusterState
from trackside.scheduler.service import Scheduler
from trackside.simulation import recovery
from trackside.simulation.config import SimulationConfig
from trackside.simulation.scenarios.running_scenarios import AskingScenario

pytestmark = pytest.mark.usefixtures("quiet_services")

SEEDS = 60


def patch_adoption(patch: pytest.MonkeyPatch, lax: Callable[..., Outcome]) -> None:
    """Folds adoptions in another way."""
    folds: dict[Any, Any] = {**task_events._FOLDS}
    patch.setattr(task_events, "_FOLDS", folds | {AttemptAdopted: lax})


def any_worker_adopts(patch: pytest.MonkeyPatch) -> None:
    """A worker may adopt what another one has."""
    honest = task_acceptance.adopted

    def lax(task: Task, event: AttemptAdopted, record: Record) -> Outcome:
        known = {} if task.place is None else {"worker_id": task.place.worker_id}
        return honest(task, event.model_copy(update=known), record)

    patch_adoption(patch, lax)


def adopted_attempts_are_lost_when_their_incarnation_joins(patch: pytest.MonkeyPatch) -> None:
    """The scheduler ends all attempts that an earlier incarnation began, as if nothing were adopted."""
    honest = decide.lost_attempts

    def lax(
        cluster: ClusterState, fleet: Fleet, positions: Mapping[int, int], *more: Any
    ) -> Iterable[tuple[Task, Proposal]]:
        yield from honest(cluster, fleet, positions, *more)
        for task in list(cluster.placed.values()):
            began, place = task.attempt.incarnations[0], task.place
            if place is not None and began != place.incarnation and fleet.knows(place.incarnation):
                ended = decide._ended(task, AttemptEnd.LOST, place.incarnation)
                yield task, decide._about(task, "lose attempt", ended)

    patch.setattr(decide, "lost_attempts", lax)


def an_incarnation_that_never_joins_keeps_its_attempts(patch: pytest.MonkeyPatch) -> None:
    """The lease of an incarnation begins when it joins, and not when it adopts."""
    patch.setattr(Scheduler, "_is_silent", lambda *_: False)
    patch.setattr(recovery, "JOURNAL_LOST", 0.5)  # else the next one adopts them


def the_earlier_incarnation_still_gets_tasks(patch: pytest.MonkeyPatch) -> None:
    """An adoption doesn't close the earlier incarnation to new tasks."""
    honest = Scheduler._take_in_adopted

    def lax(self: Scheduler, event: AttemptAdopted) -> None:
        honest(self, event.model_copy(update={"earlier": ()}))

    patch.setattr(Scheduler, "_take_in_adopted", lax)


def an_adopted_placement_begins_anew(patch: pytest.MonkeyPatch) -> None:
    """What a task has asked for before is forgotten when it is adopted."""
    patch_adoption(patch, after(task_acceptance.adopted, lambda task, *_: task_reuse.reset_requests(task)))


MUTANTS: Mapping[Mutate, SimulationConfig] = {
    any_worker_adopts: KILLS_ONLY,
    adopted_attempts_are_lost_when_their_incarnation_joins: KILLS_ONLY,
    an_incarnation_that_never_joins_keeps_its_attempts: KILLS_ONLY,
    the_earlier_incarnation_still_gets_tasks: KILLS_ONLY,
    an_adopted_placement_begins_anew: replace(KILLS_ONLY, scenario=AskingScenario),
    reports_of_the_trial_before_count: replace(KILLS_ONLY, scenario=AskingScenario),
}


def violations(seed: int, config: SimulationConfig) -> list[str]:
    simulation = WorkersKilledOften(seed, config)
    try:
        return simulation.run().violations
    finally:
        simulation.forget()


def is_noticed(seed: int, config: SimulationConfig) -> bool:
    try:
        return bool(violations(seed, config))
    except Exception:  # noqa: BLE001 - a mutant may break whatever looks at it
        return True


@pytest.mark.parametrize(("mutate", "config"), each_of(MUTANTS, [any_worker_adopts]))
def test_a_rule_of_adoption_removed_is_noticed(
    mutate: Mutate, config: SimulationConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [violations(seed, config) for seed in range(2)] == [[], []]
    mutate(monkeypatch)
    assert any(is_noticed(seed, config) for seed in range(SEEDS)), f"it survived {SEEDS} seeds"
