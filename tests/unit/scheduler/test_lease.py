"""Leases of workers, by the log's clock."""

from tests.unit.scheduler.given import fleet_of, worker
from trackside.contracts.fleet import WorkerLeft, WorkerLost
from trackside.scheduler import decide
from trackside.scheduler.lease import Leases

BEAT_MS, LEASE_MS = 1_000, 10_000


def beats(leases: Leases, *times_ms: int) -> None:
    for time_ms in times_ms:
        leases.record_own_heartbeat(time_ms)


def test_a_worker_is_lost_when_it_is_silent_for_longer_than_its_lease() -> None:
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


def test_a_worker_that_left_is_not_lost_as_well() -> None:
    leases, fleet_state = Leases(BEAT_MS), fleet_of(worker(), WorkerLeft(worker_id="w1", incarnation="i-1"))
    leases.renew("i-1")
    beats(leases, *range(0, 60_000, BEAT_MS))
    assert decide.lost_workers(fleet_state, leases, LEASE_MS) == []


def test_an_outage_of_the_log_ages_nobody() -> None:
    leases, fleet_state = Leases(BEAT_MS), fleet_of(worker())
    leases.renew("i-1")
    beats(leases, 0, 1_000, 2_000, 3_600_000)
    assert leases.silent_ms("i-1") == 2_000 + 2 * BEAT_MS
    assert decide.lost_workers(fleet_state, leases, LEASE_MS) == []


def test_a_log_clock_that_jumps_back_makes_nobody_younger_or_older() -> None:
    leases = Leases(BEAT_MS)
    leases.renew("i-1")
    beats(leases, 10_000, 11_000, 4_000, 5_000)
    assert leases.silent_ms("i-1") == 2_000


def test_a_worker_never_heard_of_is_given_its_whole_lease() -> None:
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
