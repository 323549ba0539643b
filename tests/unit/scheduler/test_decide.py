"""Lost workers and attempts, leases by the clock of the log, time limits and repeated refusals."""

from typing import Any

import pytest

from tests.unit.domain.given import STREAM, Told, assigned, ended, task_active, task_id, task_queued
from tests.unit.scheduler.given import cluster_of, fleet_of, worker
from tests.unit.scheduler.harness import SchedulerHarness, one_worker
from trackside.contracts.fleet.fleet import WorkerLeft, WorkerLost
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded, TimeLimitReached
from trackside.domain.fleet.fleet import Fleet
from trackside.domain.outcome import Outcome
from trackside.scheduler import decide
from trackside.scheduler.lease import Leases


def test_a_task_that_has_waited_or_run_for_as_long_as_it_may_reaches_its_limit() -> None:
    harness = SchedulerHarness()
    harness.submit("a", needs={"queue_timeout_s": 5})
    harness.submit("b", needs={"run_timeout_s": 5})
    harness.now_ms += 5_000
    assert reached_limits(harness) == ["queue"]
    assert harness.task("a").end is AttemptEnd.TIMED_OUT_QUEUE
    harness.join_worker(cpus=1)
    harness.run_pass()
    harness.accept("b")
    harness.now_ms += 4_999
    assert reached_limits(harness) == []
    harness.now_ms += 1
    assert reached_limits(harness) == ["run"]
    assert harness.task("b").attempt.stopping is AttemptEnd.TIMED_OUT_RUN


def reached_limits(harness: SchedulerHarness) -> list[str]:
    found: list[str] = []
    for task, proposal in list(decide.limits_reached(harness.cluster, harness.now_ms, lambda _: False)):
        [reached] = proposal.events
        assert isinstance(reached, TimeLimitReached)
        harness.fold(reached, harness.stream_of(task.task_id))
        found.append(reached.limit)
    return found


def test_a_task_that_was_refused_ten_times_is_given_up() -> None:
    harness = one_worker(cpus=1)
    harness.submit("a")
    for _ in range(10):
        assert harness.assignments() == [("a", "w1/cpu-0")]
        harness.refuse("a", "device_broken", "no such file")
    assert harness.assignments() == []
    (task,) = harness.cluster.given_up.values()
    [ended] = decide.give_up(task).events
    assert isinstance(ended, AttemptEnded) and ended.error is not None
    assert (ended.end, ended.error.stage, ended.error.type) == (AttemptEnd.REFUSED, "START", "Refused")
    assert ended.error.message == "refused 10 times, last by w1: device_broken: no such file"
    harness.fold(ended, role="scheduler")
    assert harness.task("a").end is AttemptEnd.REFUSED
    assert harness.cluster.given_up == {}


@pytest.mark.parametrize("code", ["journal_unwritable", "device_busy"])
def test_refusals_that_no_task_is_at_fault_for_are_not_counted_against_it(code: str) -> None:
    harness = one_worker(cpus=1)
    harness.submit("a")
    for _ in range(11):
        assert harness.assignments() == [("a", "w1/cpu-0")]
        harness.refuse("a", code, "why")
    assert (harness.assignments(), harness.cluster.given_up) == ([("a", "w1/cpu-0")], {})


def lost(told: Told, fleet: Fleet, positions: dict[int, int] | None = None, **more: Any) -> list[str]:
    """Returns the incarnations whose attempts are lost."""
    known = told.streams.positions if positions is None else positions
    found = decide.lost_attempts(cluster_of(told), fleet, known, **more)
    events = [event for _, proposal in found for event in proposal.events]
    return [event.incarnation for event in events if isinstance(event, AttemptEnded)]


@pytest.mark.parametrize("gone", [WorkerLeft(worker_id="w1", incarnation="i-1"), None])
def test_an_attempt_is_lost_with_its_worker(gone: WorkerLeft | None) -> None:
    silent = WorkerLost(worker_id="w1", incarnation="i-1", silent_ms=11_000)
    told, fleet_state = task_active(), fleet_of(worker(), gone or silent)
    ((task, proposal),) = decide.lost_attempts(cluster_of(told), fleet_state, {})
    [event] = proposal.events
    assert isinstance(event, AttemptEnded)
    assert (task, event.end, event.attempt, event.placement) == (told.task(), AttemptEnd.LOST, 1, 1)
    assert told.tell(event, role="scheduler") == [Outcome.APPLIED]
    assert told.task().attempt.number == 2


def test_nothing_is_lost_of_a_worker_that_is_there() -> None:
    told, fleet_state = task_active(), fleet_of(worker())
    known = frozenset({("w1", "i-1"), ("w2", "i-7")})
    assert not list(decide.lost_attempts(cluster_of(told), fleet_state, {}, known))
    gone = fleet_of(worker(), WorkerLeft(worker_id="w1", incarnation="i-1"))
    assert list(decide.lost_attempts(cluster_of(told), gone, {}, known - {("w1", "i-1")}))
    assert lost(task_active(), fleet_of(worker())) == []
    assert lost(task_queued(), fleet_of(worker())) == []


def test_the_word_of_a_worker_that_rejoined_or_is_not_folded_yet_is_waited_for() -> None:
    fleet_state = fleet_of(worker(), worker("w1", "i-2", after={"3": 40, "5": 7}))
    told = task_active()
    assert lost(told, fleet_state, {3: 39, 5: 7}) == []
    assert lost(told, fleet_state, {3: 40}) == []
    assert lost(told, fleet_state, {3: 40, 5: 7}) == ["i-1"]
    told = task_active()
    told.tell(ended())
    fleet_state = fleet_of(worker(), worker("w1", "i-2", after={"3": told.next_offset}))
    assert lost(told, fleet_state) == []
    told = task_queued()
    told.tell(assigned(incarnation="i-7"))
    assert lost(told, fleet_of(worker())) == []
    assert lost(told, Fleet()) == []


def test_the_cluster_state_follows_a_task_through_its_life() -> None:
    told = task_queued()
    cluster = cluster_of(told)
    cluster.hosts.sync_fleet(fleet_of(worker()), lambda _: True, [])
    device = cluster.hosts.by_id["w1"].devices["cpu-0"]
    task = told.task()
    assert task_id(0) in cluster.waiting
    told.tell(assigned())
    for _ in range(2):
        cluster.update(STREAM, task)
        assert (len(cluster.waiting), list(cluster.placed)) == (0, [task_id(0)])
        assert list(device.bookings) == [task_id(0)]
    told.tell(ended(AttemptEnd.LOST), role="scheduler")
    cluster.update(STREAM, task)
    cluster.advance(task.not_before_ms)
    assert (task_id(0) in cluster.waiting, dict(device.bookings)) == (True, {})
    told.tell(assigned(attempt=2))
    told.tell(ended(attempt=2))
    cluster.update(STREAM, task)
    kept = (cluster.tasks, cluster.placed, cluster.unanswered, cluster.tasks_on, cluster.bookings)
    assert (len(cluster.waiting), *kept, cluster.stream_of) == (0, {}, {}, {}, {}, {}, {})


BEAT_MS, LEASE_MS = 1_000, 10_000


def beats(leases: Leases, *times_ms: int) -> None:
    for time_ms in times_ms:
        leases.record_own_heartbeat(time_ms)


def test_a_worker_that_has_not_left_is_lost_when_it_is_silent_for_longer_than_its_lease() -> None:
    leases, fleet_state = Leases(BEAT_MS), fleet_of(worker(), worker("w2", "i-2"))
    assert decide.lost_workers(fleet_state, leases, LEASE_MS) == []
    beats(leases, *range(0, 11_000, BEAT_MS))
    leases.renew("i-2")
    assert decide.lost_workers(fleet_state, leases, LEASE_MS) == []
    beats(leases, 11_000)
    [(_, proposal)] = decide.lost_workers(fleet_state, leases, LEASE_MS)
    [lost] = proposal.events
    assert isinstance(lost, WorkerLost)
    assert (lost.worker_id, lost.incarnation, lost.silent_ms) == ("w1", "i-1", 11_000)
    leases, fleet_state = Leases(BEAT_MS), fleet_of(worker(), WorkerLeft(worker_id="w1", incarnation="i-1"))
    leases.renew("i-1")
    beats(leases, *range(0, 60_000, BEAT_MS))
    assert decide.lost_workers(fleet_state, leases, LEASE_MS) == []


def test_neither_an_outage_of_the_log_nor_its_clock_ages_a_worker_nor_silence_one_never_heard_of() -> None:
    leases, fleet_state = Leases(BEAT_MS), fleet_of(worker())
    leases.renew("i-1")
    beats(leases, 0, 1_000, 2_000, 3_600_000)
    assert leases.silent_ms("i-1") == 2_000 + 2 * BEAT_MS
    assert decide.lost_workers(fleet_state, leases, LEASE_MS) == []
    leases = Leases(BEAT_MS)
    leases.renew("i-1")
    beats(leases, 10_000, 11_000, 4_000, 5_000)
    assert leases.silent_ms("i-1") == 2_000
    leases = Leases(BEAT_MS)
    beats(leases, *range(0, 30_000, BEAT_MS))
    assert leases.silent_ms("i-1") == 0
    beats(leases, 30_000)
    assert leases.silent_ms("i-1") == BEAT_MS


def test_incarnations_that_are_no_more_are_forgotten() -> None:
    leases = Leases(BEAT_MS)
    for incarnation in ("i-1", "i-2"):
        leases.renew(incarnation)
    leases.retain({"i-2"})
    assert set(leases.seen) == {"i-2"}
