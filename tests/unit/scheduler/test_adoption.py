"""What the scheduler does about attempts that a new incarnation of their worker has adopted."""

from typing import Any

import pytest

from tests.unit.domain.given import (
    Told,
    adopted,
    assigned,
    begun,
    search_running,
    submitted,
    suggested,
    task_active,
    task_id,
)
from tests.unit.scheduler.given import fleet_of, worker
from tests.unit.scheduler.test_decide import lost
from tests.unit.scheduler.test_service import ServiceHarness
from trackside.contracts.fleet.fleet import (
    SchedulerHeartbeat,
    WorkerHeartbeat,
    WorkerJoined,
    WorkerLeft,
    WorkerLost,
)
from trackside.contracts.tasks.device_commands import StopTask
from trackside.contracts.tasks.tasks import AttemptEnded, TaskStopRequested
from trackside.domain.outcome import Outcome
from trackside.scheduler.settings import SchedulerSettings

LEASE_MS = int(SchedulerSettings().lease_s * 1000)
LOST = WorkerLost(worker_id="w1", incarnation="i-1", silent_ms=LEASE_MS + 1)


def task_adopted() -> Told:
    """Returns a log in which incarnation i-2 has adopted the attempt of i-1."""
    told = task_active()
    assert told.tell(adopted()) == [Outcome.APPLIED]
    return told


def test_an_attempt_is_lost_once_a_new_incarnation_has_joined_that_has_not_adopted_it() -> None:
    told = task_adopted()
    assert lost(told, fleet_of(worker(), worker("w1", "i-2", after={"3": told.next_offset}))) == []
    told = task_active()
    assert lost(told, fleet_of(worker(), worker("w1", "i-2"))) == ["i-1"]


def test_an_attempt_of_an_incarnation_that_has_not_joined_is_lost_when_its_lease_runs_out() -> None:
    told = task_adopted()
    for fleet in (fleet_of(worker()), fleet_of(worker(), LOST), fleet_of(worker(), worker("w1", "i-3"))):
        assert lost(told, fleet) == []
        assert lost(told, fleet, is_silent=lambda name, _: name == "i-2") == ["i-2"]


def test_what_a_later_incarnation_appended_before_it_joined_is_waited_for() -> None:
    told = task_adopted()
    later = worker("w1", "i-3", after={"3": told.next_offset + 1})
    assert lost(told, fleet_of(worker(), later), is_silent=lambda *_: True) == []
    told.tell(adopted(incarnation="i-3", earlier=("i-1", "i-2")))
    assert lost(told, fleet_of(worker(), later), is_silent=lambda *_: True) == []


class AdoptionHarness(ServiceHarness):
    """A scheduler, worker w1 as incarnation i-1, and a task that it runs."""

    def __init__(self, told: Told | None = None, **joined: Any) -> None:
        super().__init__()
        self.told = told or task_active()
        self._folded = 0
        self._time_ms = 0
        self.fold(worker(**joined))
        self.fold_new()

    def fold_new(self) -> None:
        for record in self.told.records[self._folded :]:
            self.scheduler.fold(record)
        self._folded = len(self.told.records)

    def adopt(self, incarnation: str = "i-2", earlier: tuple[str, ...] = ("i-1",)) -> None:
        self.told.tell(adopted(incarnation=incarnation, earlier=earlier))
        self.fold_new()

    def lost_within(self, passed_ms: int) -> list[str]:
        """Returns the incarnations whose attempts are lost within a time, by a heartbeat each second."""
        own = SchedulerHeartbeat(instance=self.service.writer.instance)
        for _ in range(passed_ms // 1_000):
            self._time_ms += 1_000
            self.fold(own, append_time_ms=self._time_ms)
            if found := [event.incarnation for event in self.decided(AttemptEnded)]:
                return found
        return []


@pytest.mark.parametrize("gone", [LOST, WorkerLeft(worker_id="w1", incarnation="i-1"), None])
def test_what_adopts_and_never_joins_has_one_lease(gone: WorkerLost | WorkerLeft | None) -> None:
    harness = AdoptionHarness()
    assert harness.lost_within(2_000) == []
    harness.adopt()
    harness.fold(gone or worker("w1", "i-3"))
    assert harness.lost_within(LEASE_MS) == []
    assert harness.lost_within(1_000) == ["i-2"]


KEEP_MS = 45_000
LOST_LATER = KEEP_MS - LEASE_MS - 1_000
"""How long after the loss of its worker an attempt is not lost yet: its lease has run out before."""


def lost_after_its_worker(told: Told, within_ms: int, **joined: Any) -> list[str]:
    """Returns which attempts are lost within a time after their worker was silent for a lease and is lost."""
    harness = AdoptionHarness(told, **joined)
    assert harness.lost_within(LEASE_MS) == []
    harness.fold(LOST)
    return harness.lost_within(within_ms)


def test_an_attempt_that_outlives_its_worker_is_lost_when_no_start_takes_so_long() -> None:
    assert lost_after_its_worker(task_active(), LOST_LATER, keep_ms=KEEP_MS) == []
    assert lost_after_its_worker(task_active(), LOST_LATER + 3_000, keep_ms=KEEP_MS) == ["i-1"]


def test_an_attempt_of_an_earlier_release_or_of_a_worker_that_starts_quickly_is_lost_with_it() -> None:
    assert lost_after_its_worker(task_active(), 2_000) == ["i-1"]
    assert lost_after_its_worker(task_active(), 2_000, keep_ms=LEASE_MS // 2) == ["i-1"]


def test_an_attempt_that_is_adopted_after_its_worker_was_lost_lives_on() -> None:
    harness = AdoptionHarness(keep_ms=KEEP_MS)
    assert harness.lost_within(LEASE_MS) == []
    harness.fold(LOST)
    assert harness.lost_within(LOST_LATER) == []
    harness.adopt()
    assert harness.lost_within(KEEP_MS - 1_000) == [], "the next start may take as long, too"
    harness.fold(worker("w1", "i-2", keep_ms=KEEP_MS))
    assert harness.lost_within(LEASE_MS) == []


def test_what_may_not_run_twice_and_what_is_told_to_stop_is_lost_with_its_worker() -> None:
    exclusive = search_running()
    exclusive.tell(suggested(0), submitted(0, needs={"exclusive": True}))
    exclusive.each(assigned(), begun())
    assert lost_after_its_worker(exclusive, 2_000, keep_ms=KEEP_MS) == ["i-1"]
    stopped = task_active()
    stopped.tell(TaskStopRequested(task_id=task_id(0), reason="user"))
    assert lost_after_its_worker(stopped, 2_000, keep_ms=KEEP_MS) == ["i-1"]


@pytest.mark.parametrize("gone", [WorkerLeft(worker_id="w1", incarnation="i-1"), worker("w1", "i-2")])
def test_an_attempt_is_lost_at_once_if_its_worker_has_left_or_is_back_without_it(
    gone: WorkerLeft | WorkerJoined,
) -> None:
    harness = AdoptionHarness(keep_ms=KEEP_MS)
    harness.fold(gone)
    assert harness.lost_within(1_000) == ["i-1"]


def test_an_adoption_gives_its_incarnation_a_lease_also_if_it_was_heard_of_long_before() -> None:
    harness = AdoptionHarness()
    harness.fold(WorkerHeartbeat(worker_id="w1", incarnation="i-2", running=[]))
    harness.fold(LOST.model_copy(update={"worker_id": "w1"}))
    harness.told.tell(adopted())
    assert harness.lost_within(0) == []
    harness.fold_new()
    assert harness.lost_within(LEASE_MS - 1_000) == []
    harness.adopt("i-3", ("i-1", "i-2"))
    assert harness.lost_within(LEASE_MS) == []
    assert harness.lost_within(1_000) == ["i-3"]


def test_an_adopted_attempt_lives_on_if_its_incarnation_joins_before_its_lease_runs_out() -> None:
    harness = AdoptionHarness()
    harness.adopt()
    assert harness.lost_within(LEASE_MS) == []
    harness.fold(worker("w1", "i-2"))
    assert harness.lost_within(LEASE_MS) == []


def test_an_incarnation_whose_attempt_was_adopted_gets_no_new_tasks() -> None:
    harness = AdoptionHarness()
    harness.told.tell(suggested(1), submitted(1, needs={"resources": {"devices": 0}}))
    harness.fold_new()
    assert harness.assignments() == ["i-1"]
    harness.scheduler._cluster.discard_tentative(lambda _: False)
    harness.adopt()
    assert harness.assignments() == []
    assert harness.assignments(worker("w1", "i-2", after={"3": harness.told.next_offset})) == ["i-2"]
    harness = AdoptionHarness()
    harness.told.tell(adopted(worker="w2", incarnation="i-8", earlier=("i-1",)))
    harness.told.tell(suggested(1), submitted(1, needs={"resources": {"devices": 0}}))
    harness.fold_new()
    assert harness.assignments() == ["i-1"]


@pytest.mark.parametrize("restarted", [False, True])
def test_incarnations_that_join_after_their_attempt_was_adopted_get_no_new_tasks(restarted: bool) -> None:
    told = task_adopted() if restarted else task_active()
    told.tell(adopted(incarnation="i-3", earlier=("i-1", "i-2")))
    told.tell(suggested(1), submitted(1, needs={"resources": {"devices": 0}}))
    harness = ServiceHarness(recovered=told.streams if restarted else None)
    if not restarted:
        harness.fold_all(told)
    harness.fold(worker("w2", "i-9", types=()))
    for incarnation in ("i-1", "i-2"):
        assert harness.assignments(worker("w1", incarnation)) == []
    assert harness.assignments(worker("w1", "i-3", after={"3": told.next_offset})) == ["i-3"]


async def test_a_command_goes_to_the_new_incarnation_at_once_when_that_has_joined() -> None:
    harness = AdoptionHarness()
    harness.told.tell(TaskStopRequested(task_id=harness.told.task().task_id, reason="user"))
    harness.fold_new()
    assert [stop.incarnation for stop in await harness.sent() if isinstance(stop, StopTask)] == ["i-1"]
    harness.adopt()
    harness.fold(worker("w1", "i-2"))
    stops = [stop.incarnation for stop in await harness.sent() if isinstance(stop, StopTask)]
    assert stops == ["i-1", "i-2"]
