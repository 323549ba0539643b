"""The statistics of a simulated fleet."""

from tests.unit.domain.given import Told, adopted, assigned, begun, ended, submitted, suggested, task_queued
from trackside.contracts.message import Event
from trackside.simulation.statistics import TaskTimes


def times(*begins: Event) -> tuple[list[int], int]:
    """Returns how long a task waited and ran, ms, whose worker begins with these events."""
    told: Told = task_queued()
    told.tell(assigned())
    told.tell(*begins)
    incarnation = told.task().attempt.incarnations[-1]
    told.tell(suggested(1), submitted(1))
    told.tell(ended(incarnation=incarnation))
    found = TaskTimes()
    for record in told.records:
        found.note(record)
    return found.queued_ms, found.used_ms


def test_an_attempt_that_was_adopted_before_it_was_accepted_has_waited_and_run() -> None:
    assert times(adopted()) == times(begun())
    assert times(adopted())[1] > 0


def test_an_attempt_runs_from_its_acceptance_on_also_if_it_is_adopted_later() -> None:
    waited, ran = times(begun(), adopted())
    assert waited == times(begun())[0]
    assert ran > times(begun())[1]
