"""Workers that are killed often adopt what outlives them, whatever the tasks do."""

from collections import Counter
from dataclasses import replace

import pytest

from tests.unit.simulation.adopting import LONG_TASKS, WorkersKilledOften
from trackside.contracts.tasks.tasks import ParametersTaken, TaskAssigned
from trackside.domain.outcome import Outcome
from trackside.eventlog.keys.decode import decode
from trackside.simulation import recovery
from trackside.simulation.config import SimulationConfig
from trackside.simulation.scenarios.running_scenarios import SCENARIO_TYPES, AskingScenario
from trackside.simulation.scenarios.scenarios import StreamScenario

pytestmark = [pytest.mark.usefixtures("quiet_services"), pytest.mark.thorough]

SEEDS = range(3)
CONFIG = SimulationConfig(trials=12, workload=LONG_TASKS)


def outcomes(config: SimulationConfig) -> Counter[Outcome]:
    """Returns how many adoptions had which outcome; fails for a violation."""
    found: Counter[Outcome] = Counter()
    for seed in SEEDS:
        simulation = WorkersKilledOften(seed, config)
        try:
            assert simulation.run().violations == [], seed
            found.update(outcome for _, outcome in simulation.adoptions)
        finally:
            simulation.forget()
    return found


@pytest.mark.parametrize("scenario", SCENARIO_TYPES, ids=lambda each: each.name)
def test_tasks_of_all_kinds_are_adopted_by_workers_killed_often(scenario: type[StreamScenario]) -> None:
    assert outcomes(replace(CONFIG, scenario=scenario))[Outcome.APPLIED] > 0


def test_who_asks_gets_an_answer_from_the_worker_that_has_adopted_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "RUNS_MEANWHILE", 1.0)
    simulation = WorkersKilledOften(1, replace(CONFIG, scenario=AskingScenario))
    try:
        assert simulation.run().violations == []
        adopted = {event.incarnation for event, outcome in simulation.adoptions if outcome is Outcome.APPLIED}
        told = [
            record.message
            for partition in range(simulation.topics.events.partitions)
            for entry in simulation.log.entries[simulation.topics.events.name, partition]
            if (record := decode(entry)) is not None
        ]
    finally:
        simulation.forget()
    taken = [event for event in told if isinstance(event, ParametersTaken) and event.incarnation in adopted]
    begun = {(event.task_id, event.incarnation) for event in told if isinstance(event, TaskAssigned)}
    assert any((event.task_id, event.incarnation) not in begun for event in taken)


def test_an_attempt_that_was_lost_first_is_not_adopted() -> None:
    assert outcomes(replace(CONFIG, lease_s=0.4))[Outcome.OVERTAKEN] > 0


def test_a_worker_adopts_nothing_of_another_one_s_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "ALL_END", 1.0)  # so it adopts nothing of its own
    monkeypatch.setattr(recovery, "FOREIGN_JOURNAL", 1.0)
    found = outcomes(CONFIG)
    assert found[Outcome.OVERTAKEN] > 0
    assert found[Outcome.APPLIED] == 0
