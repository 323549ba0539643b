"""Who gets which device, who is lost, and what devices are owed: from folded state alone."""

from collections.abc import Iterable

import pytest

from tests.unit.domain.given import (
    STREAM,
    Told,
    assigned,
    begun,
    ended,
    record_of,
    task_active,
    task_id,
    task_queued,
    token,
)
from trackside.contracts.fleet import Device, RunningPlacement, WorkerJoined, WorkerLeft, WorkerLost
from trackside.contracts.tasks import (
    AttemptEnd,
    AttemptEnded,
    NextParameters,
    RecallTask,
    RunTask,
    StopTask,
    TaskStopRequested,
)
from trackside.domain import fleet
from trackside.domain.fleet import Fleet
from trackside.domain.outcome import Outcome
from trackside.scheduler import decide
from trackside.scheduler.cluster_state import ClusterState
from trackside.scheduler.device_commands import commands_for_orphans
from trackside.scheduler.device_commands import pending_commands as owed_of
from trackside.scheduler.lease import Leases


def workers(*joins: WorkerJoined | WorkerLeft | WorkerLost) -> Fleet:
    state = Fleet()
    for offset, event in enumerate(joins):
        assert fleet.evolve(state, record_of(event, offset)) is Outcome.APPLIED
    return state


def worker(
    name: str = "w1",
    incarnation: str = "i-1",
    slots: int = 1,
    types: Iterable[str] = ("digits",),
    queues: Iterable[str] = ("default",),
    after: dict[str, int] | None = None,
) -> WorkerJoined:
    devices = [Device(device_id=f"cpu-{at}", kind="cpu", name="slot", memory_bytes=1) for at in range(slots)]
    return WorkerJoined(
        worker_id=name,
        incarnation=incarnation,
        host="node",
        devices=devices,
        task_types=list(types),
        queues=list(queues),
        after=after or {},
    )


def board_of(told: Told) -> ClusterState:
    cluster = ClusterState()
    for task in told.stream.tasks.values():
        cluster.update(STREAM, task)
    return cluster


def test_the_board_follows_a_task_through_its_life() -> None:
    told = task_queued()
    cluster = board_of(told)
    cluster.hosts.sync_fleet(workers(worker()), lambda _: True, [])
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
    kept = (
        cluster.tasks,
        cluster.placed,
        cluster.unanswered,
        cluster.tasks_on,
        cluster.bookings,
        cluster.stream_of,
    )
    assert (len(cluster.waiting), *kept) == (0, {}, {}, {}, {}, {}, {})


BEAT_MS, LEASE_MS = 1_000, 10_000


def beats(leases: Leases, *times_ms: int) -> None:
    for time_ms in times_ms:
        leases.record_own_heartbeat(time_ms)


def test_a_worker_is_lost_when_it_is_silent_for_longer_than_its_lease() -> None:
    leases, there = Leases(BEAT_MS), workers(worker(), worker("w2", "i-2"))
    assert decide.lost_workers(there, leases, LEASE_MS) == []
    beats(leases, *range(0, 11_000, BEAT_MS))
    leases.renew("i-2")
    assert decide.lost_workers(there, leases, LEASE_MS) == []
    beats(leases, 11_000)
    [(_, proposal)] = decide.lost_workers(there, leases, LEASE_MS)
    [lost] = proposal.events
    assert isinstance(lost, WorkerLost)
    assert (lost.worker_id, lost.incarnation, lost.silent_ms) == ("w1", "i-1", 11_000)


def test_a_worker_that_left_is_not_lost_as_well() -> None:
    leases, there = Leases(BEAT_MS), workers(worker(), WorkerLeft(worker_id="w1", incarnation="i-1"))
    leases.renew("i-1")
    beats(leases, *range(0, 60_000, BEAT_MS))
    assert decide.lost_workers(there, leases, LEASE_MS) == []


def test_an_outage_of_the_log_ages_nobody() -> None:
    leases, there = Leases(BEAT_MS), workers(worker())
    leases.renew("i-1")
    beats(leases, 0, 1_000, 2_000, 3_600_000)
    assert leases.silent_ms("i-1") == 2_000 + 2 * BEAT_MS
    assert decide.lost_workers(there, leases, LEASE_MS) == []


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


def lost(told: Told, there: Fleet, positions: dict[int, int] | None = None) -> list[str]:
    found = decide.lost_attempts(board_of(told), there, positions or {})
    events = [event for _, proposal in found for event in proposal.events]
    return [event.incarnation for event in events if isinstance(event, AttemptEnded)]


@pytest.mark.parametrize("gone", [WorkerLeft(worker_id="w1", incarnation="i-1"), None])
def test_an_attempt_is_lost_with_its_worker(gone: WorkerLeft | None) -> None:
    silent = WorkerLost(worker_id="w1", incarnation="i-1", silent_ms=11_000)
    told, there = task_active(), workers(worker(), gone or silent)
    ((task, proposal),) = decide.lost_attempts(board_of(told), there, {})
    [event] = proposal.events
    assert isinstance(event, AttemptEnded)
    assert (task, event.end, event.attempt, event.placement) == (told.task(), AttemptEnd.LOST, 1, 1)
    assert told.tell(event, role="scheduler") == [Outcome.APPLIED]
    assert told.task().attempt.number == 2


def test_nothing_is_lost_where_all_workers_are_known_to_be_there() -> None:
    told, there = task_active(), workers(worker())
    known = frozenset({("w1", "i-1"), ("w2", "i-7")})
    assert not list(decide.lost_attempts(board_of(told), there, {}, known))
    gone = workers(worker(), WorkerLeft(worker_id="w1", incarnation="i-1"))
    assert list(decide.lost_attempts(board_of(told), gone, {}, known - {("w1", "i-1")}))


def test_an_attempt_on_a_worker_that_is_there_is_not_lost() -> None:
    assert lost(task_active(), workers(worker())) == []
    assert lost(task_queued(), workers(worker())) == []


def test_a_rejoined_worker_s_own_word_is_waited_for() -> None:
    there = workers(worker(), worker("w1", "i-2", after={"3": 40, "5": 7}))
    told = task_active()
    assert lost(told, there, {3: 39, 5: 7}) == []
    assert lost(told, there, {3: 40}) == []
    assert lost(told, there, {3: 40, 5: 7}) == ["i-1"]


def test_what_a_worker_recovered_and_said_before_it_rejoined_is_no_loss() -> None:
    told = task_active()
    told.tell(ended())
    there = workers(worker(), worker("w1", "i-2", after={"3": told.next_offset}))
    assert lost(told, there, told.streams.positions) == []


def test_an_incarnation_that_has_not_been_folded_yet_is_not_lost() -> None:
    told = task_queued()
    told.tell(assigned(incarnation="i-7"))
    assert lost(told, workers(worker())) == []
    assert lost(told, Fleet()) == []


def pending_commands(told: Told, there: Fleet) -> list[RunTask | StopTask | RecallTask | NextParameters]:
    return [due.build() for due in owed_of(board_of(told), there)]


def test_a_device_is_owed_its_task_until_the_worker_has_answered() -> None:
    told, there = task_queued(), workers(worker())
    assert pending_commands(told, there) == []
    told.tell(assigned())
    (due,) = owed_of(board_of(told), there)
    assert (due.worker_id, due.device_id) == ("w1", "cpu-0")
    assert due.key == ("RunTask", task_id(0), 1, 1)
    run = RunTask(
        stream=STREAM,
        **token(),
        task_type="digits",
        parameters={"lr": 0.0},
        device_ids=["cpu-0"],
        interrupts=2,
    )
    assert due.build() == run
    told.tell(begun())
    assert pending_commands(told, there) == []


def test_a_device_is_owed_a_stop_until_the_attempt_has_ended() -> None:
    told, there = task_active(), workers(worker())
    told.tell(TaskStopRequested(task_id=task_id(0), reason="assessor"))
    assert pending_commands(told, there) == [StopTask(stream=STREAM, **token(), reason="assessor")]
    told.tell(ended(AttemptEnd.CANCELLED))
    assert pending_commands(told, there) == []


def test_a_task_stopped_before_it_started_is_owed_a_stop_and_no_start() -> None:
    told, there = task_queued(), workers(worker())
    told.tell(assigned())
    told.tell(TaskStopRequested(task_id=task_id(0), reason="user"))
    assert [type(command) for command in pending_commands(told, there)] == [StopTask]


def test_nothing_is_owed_to_a_worker_that_is_not_there() -> None:
    told = task_queued()
    told.tell(assigned())
    assert pending_commands(told, workers(worker("w1", "i-2"))) == []
    assert pending_commands(told, workers(worker(), WorkerLeft(worker_id="w1", incarnation="i-1"))) == []


def test_what_runs_although_the_log_has_moved_on_is_stopped() -> None:
    running = [
        RunningPlacement(stream=STREAM, task_id=task_id(trial), attempt=1, placement=1, device_ids=["cpu-0"])
        for trial in (0, 1)
    ]
    (due,) = commands_for_orphans(running, "w1", "i-1", lambda placement: placement.task_id == task_id(0))
    assert (due.worker_id, due.device_id) == ("w1", "cpu-0")
    assert due.build() == StopTask(stream=STREAM, **token(1), reason="stray")
