"""Who is served first, who waits for how long, and who is told that it can't run."""

from tests.unit.scheduler.hall import GIB, Hall, policy
from trackside.contracts.fleet import DeviceUnhealthy, WorkerLost
from trackside.contracts.tasks import AttemptEnd, AttemptEnded, TimeLimitReached
from trackside.scheduler import decide
from trackside.scheduler.hosts import GONE_GRACE_MS
from trackside.scheduler.occupancy import DeviceState
from trackside.scheduler.placement import PlacementQuery, scan_free
from trackside.scheduler.planner import OVERTAKEN_CHECK_MS
from trackside.scheduler.requirements import requirements_of


def run_all(hall: Hall) -> list[str]:
    """Runs what is placed, turn by turn, until nothing is; gives the order."""
    order: list[str] = []
    while placed := [name for name, _ in hall.placed()]:
        order += placed
        for name in placed:
            hall.end(name)
    return order


def test_the_highest_priority_is_first_and_then_who_waits_longest() -> None:
    hall = Hall()
    for name, priority in (("a", 2), ("b", 9), ("c", 2), ("d", 9), ("e", 5)):
        hall.submit(name, needs={"priority": priority})
    hall.join(cpus=1)
    assert run_all(hall) == ["b", "d", "e", "a", "c"]


def test_streams_share_a_queue_fairly() -> None:
    hall = Hall()
    for number in range(6):
        hall.submit(f"big-{number}", "big")
    for number in range(2):
        hall.submit(f"small-{number}", "small")
    hall.join(cpus=4)
    assert [name for name, _ in hall.placed()] == ["big-0", "small-0", "big-1", "small-1"]


def test_waiting_counts_as_priority_so_that_nothing_starves() -> None:
    hall = Hall(policy(ageing_s=600))
    hall.join(cpus=1)
    hall.submit("low", needs={"priority": 0})
    hall.submit("first", needs={"priority": 1})
    assert hall.placed() == [("first", "w1/cpu-0")]
    hall.now_ms += 1_300_000
    hall.submit("late", needs={"priority": 1})
    hall.end("first")
    assert hall.placed() == [("low", "w1/cpu-0")]


def test_a_queue_has_no_more_tasks_than_its_limit() -> None:
    hall = Hall(policy(limits={"night": 2}))
    hall.join(cpus=4, queues=("night", "default"))
    for number in range(3):
        hall.submit(f"n{number}", needs={"queue": "night"})
    hall.submit("d")
    assert [name for name, _ in hall.placed()] == ["n0", "d", "n1"]
    hall.end("n0")
    assert [name for name, _ in hall.placed()] == ["n2"]


def test_a_large_task_that_was_overtaken_for_long_enough_has_its_devices_kept() -> None:
    hall = Hall(policy(hold_after_s=60))
    hall.join(cpus=2)
    hall.submit("s0")
    hall.turn()
    hall.submit("large", devices=2)
    hall.submit("s1")
    hall.submit("s2")
    assert hall.placed() == [("s1", "w1/cpu-1")]
    due_ms = hall.planner.next_due_ms()
    assert due_ms is not None and due_ms <= hall.now_ms + OVERTAKEN_CHECK_MS
    hall.turn(after_s=OVERTAKEN_CHECK_MS / 1000)
    hall.end("s0")
    assert hall.placed(after_s=30) == [("s2", "w1/cpu-0")]
    hall.submit("s3")
    hall.end("s1")
    assert hall.placed(after_s=31) == []
    hall.end("s2")
    assert hall.placed() == [("large", "w1/cpu-0+cpu-1")]
    hall.end("large")
    assert hall.placed() == [("s3", "w1/cpu-0")]


def test_t19_a_worker_that_takes_one_task_at_a_time_runs_them_all() -> None:
    for look_ahead in (0, 1):
        hall = Hall(policy(look_ahead=look_ahead))
        hall.join(cpus=2, max_tasks=1)
        for number in range(5):
            hall.submit(f"t{number}")
        assert run_all(hall) == [f"t{number}" for number in range(5)]


def test_a_retry_waits_for_its_moment() -> None:
    hall = Hall()
    hall.join(cpus=1)
    retry = {"failed": {"times": 1, "backoff_s": 10, "jitter": 0}}
    hall.submit("a", needs={"retry": retry})
    hall.turn()
    hall.end("a", AttemptEnd.FAILED)
    assert hall.placed(after_s=9) == []
    assert hall.planner.next_due_ms() == hall.task("a").not_before_ms
    assert hall.placed(after_s=1) == [("a", "w1/cpu-0")]


def test_a_task_that_has_waited_or_run_for_as_long_as_it_may_reaches_its_limit() -> None:
    hall = Hall()
    hall.submit("a", needs={"queue_timeout_s": 5})
    hall.submit("b", needs={"run_timeout_s": 5})
    hall.now_ms += 5_000
    assert [reached.limit for _, reached in limits(hall)] == ["queue"]
    assert hall.task("a").end is AttemptEnd.TIMED_OUT_QUEUE
    hall.join(cpus=1)
    hall.turn()
    hall.accept("b")
    hall.now_ms += 4_999
    assert limits(hall) == []
    hall.now_ms += 1
    assert [reached.limit for _, reached in limits(hall)] == ["run"]
    assert hall.task("b").attempt.stopping is AttemptEnd.TIMED_OUT_RUN


def limits(hall: Hall) -> list[tuple[object, TimeLimitReached]]:
    """Says and folds which limits are reached."""
    found: list[tuple[object, TimeLimitReached]] = []
    for task, proposal in list(decide.limits_reached(hall.cluster, hall.now_ms, lambda _: False)):
        [reached] = proposal.events
        assert isinstance(reached, TimeLimitReached)
        hall.tell(reached, hall.stream_of(task.task_id))
        found.append((task, reached))
    return found


def test_a_task_that_was_refused_ten_times_is_given_up() -> None:
    hall = Hall()
    hall.join(cpus=1)
    hall.submit("a")
    for _ in range(10):
        assert hall.placed() == [("a", "w1/cpu-0")]
        hall.refuse("a", "device_broken", "no such file")
    assert hall.placed() == []
    (task,) = hall.cluster.given_up.values()
    [ended] = decide.give_up(task).events
    assert isinstance(ended, AttemptEnded)
    assert ended.error is not None
    assert (ended.end, ended.error.stage, ended.error.type) == (AttemptEnd.REFUSED, "START", "Refused")
    assert ended.error.message == "refused 10 times, last by w1: device_broken: no such file"
    hall.tell(ended, role="scheduler")
    assert hall.task("a").end is AttemptEnd.REFUSED
    assert hall.cluster.given_up == {}


def test_bi_30_what_no_device_can_hold_is_said_at_once_with_the_largest_there_is() -> None:
    hall = Hall()
    hall.join("w1", gpus=(24, 8), memory=32)
    hall.submit("a", kind="gpu", cuda=80)
    hall.submit("b", memory=64)
    hall.submit("c", kind="gpu", devices=4)
    hall.turn()
    assert hall.said() == {
        "a": "needs 80 GiB on one device, the largest has 24 GiB (w1/gpu-0)",
        "b": "needs 64 GiB on one host, the largest has 32 GiB (w1)",
        "c": "needs 4 GPUs on one worker, w1 has the most: 2",
    }
    assert hall.turn() == []


def test_bi_32_a_device_that_is_not_there_is_answered_with_those_that_are() -> None:
    hall = Hall()
    hall.join("w1", cpus=1, gpus=(24,))
    hall.submit("a", device="cuda:1")
    hall.submit("b", device="w9/gpu-0")
    hall.turn()
    assert hall.said() == {
        "a": "no device gpu-1 is there; devices: w1/gpu-0, w1/cpu-0",
        "b": "no device w9/gpu-0 is there; devices: w1/gpu-0, w1/cpu-0",
    }


def test_a_task_that_no_worker_takes_is_said_and_runs_once_one_does() -> None:
    hall = Hall()
    hall.submit("a", task_type="faces")
    hall.turn()
    assert hall.said() == {
        "a": "no worker takes tasks of type 'faces' from queue 'default': no worker is there"
    }
    hall.join("w1", cpus=1)
    hall.turn()
    assert "task types there: digits; queues: default" in hall.said()["a"]
    hall.join("w2", cpus=1, types=("faces",))
    assert hall.placed() == [("a", "w2/cpu-0")]


def test_a_worker_that_is_gone_for_a_moment_makes_nobody_unschedulable() -> None:
    hall = Hall()
    hall.join("w1", cpus=1, incarnation="i-1")
    hall.tell_fleet(WorkerLost(worker_id="w1", incarnation="i-1", silent_ms=11_000))
    hall.submit("a")
    assert hall.turn() == []
    hall.turn(after_s=GONE_GRACE_MS / 1000)
    assert list(hall.said()) == ["a"]


def test_fm_19_a_device_that_failed_gets_nothing_more() -> None:
    hall = Hall()
    hall.join("w1", gpus=(8, 8), incarnation="i-1")
    failed = DeviceUnhealthy(worker_id="w1", incarnation="i-1", device_id="gpu-0", reason="fell off the bus")
    hall.tell_fleet(failed)
    hall.submit("a", kind="gpu", cuda=8)
    hall.submit("b", device="gpu-0")
    assert hall.placed() == [("a", "w1/gpu-1")]
    assert hall.task("b").unschedulable == ("no device gpu-0 is there; devices: w1/gpu-0 (failed), w1/gpu-1")


def test_what_a_refusal_for_memory_says_keeps_only_such_tasks_from_the_device() -> None:
    hall = Hall()
    hall.join(gpus=(24,))
    task = hall.submit("a", kind="gpu", cuda=20)
    hall.turn()
    hall.refuse("a")
    hall.cluster.hosts.avoid("w1", ["gpu-0"], requirements_of(task), hall.now_ms + 1_000)
    hall.submit("b", kind="gpu", cuda=4)
    assert hall.placed() == [("b", "w1/gpu-0")]
    assert hall.placed(after_s=1) == [("a", "w1/gpu-0")]
    assert hall.task("a").attempt.reserved.cuda_memory_bytes == 20 * GIB


def test_the_first_device_that_fits_is_found_without_a_look_at_the_rest() -> None:
    hall = Hall()
    for number in range(3):
        hall.join(f"w{number}", cpus=2)
    requirements = requirements_of(hall.submit("a"))
    demand, looked = hall.cluster.demand(hall.cluster.waiting.classes[requirements]), []

    def is_usable(device: DeviceState) -> bool:
        looked.append(device)
        return True

    query = PlacementQuery(requirements, demand, hall.cluster.policy.placement_rules, is_usable)
    scan = scan_free(hall.cluster.hosts.open[::-1], query)
    found = scan.best()
    assert found is not None
    assert (found.host.worker.worker_id, found.device_ids) == ("w0", ["cpu-0"])
    assert looked == list(found.host.devices.values())
    found.host.book(found.booking("b", requirements))
    after = scan.best()
    assert after is not None
    assert (after.host.worker.worker_id, after.device_ids) == ("w0", ["cpu-1"])
