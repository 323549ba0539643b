"""The memory that a catalogue allows tasks of a type: what is reserved, and where they are tried again."""

from tests.unit.scheduler.given import GIB
from tests.unit.scheduler.harness import SchedulerHarness, one_worker
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.domain.tasks.task import TaskState


def kill_at_limit(
    harness: SchedulerHarness, task_id: str, gib: float, peak: float = 0
) -> list[tuple[str, str]]:
    """Ends an attempt as its worker does whose task was killed at its limit; returns the assignments then."""
    said = {"limit_bytes": int(gib * GIB), "peak_memory_bytes": int((peak or gib) * GIB)}
    harness.end(task_id, AttemptEnd.OOM_HOST, limit="max_memory", **said)
    return harness.assignments()


def test_t17_a_default_is_cut_to_what_the_catalogue_of_the_worker_allows() -> None:
    harness = one_worker(gpus=(24,), memory=64, limits={"digits": 0.5}, cuda_limits={"digits": 0.25})
    harness.join_worker("w2", cpus=1, limits={"digits": 1})
    harness.submit("a", kind="gpu")
    assert harness.assign("b", kind="cpu") == [("a", "w1/gpu-0"), ("b", "w2/cpu-0")]
    assert harness.reserved_bytes("a") == (GIB // 2, GIB // 4)
    assert harness.reserved("b").memory_bytes == GIB


def test_t17_a_default_is_cut_on_each_worker_to_what_is_there_and_allowed_to_tasks_of_the_type() -> None:
    harness = one_worker(cpus=1, memory=16, limits={"digits": 0.5})
    harness.join_worker("w2", cpus=1, memory=16)
    assert harness.assign(*"ab") == [("a", "w1/cpu-0"), ("b", "w2/cpu-0")]
    assert [harness.reserved(name).memory_bytes for name in ("a", "b")] == [GIB // 2, 2 * GIB]
    harness = one_worker(cpus=1, memory=16, limits={"faces": 0.5})
    harness.place("a")
    assert harness.reserved("a").memory_bytes == 2 * GIB
    harness = one_worker(gpus=(1,), memory=1)
    assert harness.assign("a", kind="gpu") == [("a", "w1/gpu-0")]
    assert harness.reserved_bytes("a") == (GIB, GIB)


def test_t17_what_was_learned_or_raised_is_cut_to_the_largest_limit() -> None:
    harness = one_worker(gpus=(24,), memory=64, limits={"digits": 1}, cuda_limits={"digits": 2})
    harness.place("a", kind="gpu")
    harness.end("a", peak_memory_bytes=GIB, peak_cuda_memory_bytes=2 * GIB)
    assert harness.assign("b", kind="gpu") == [("b", "w1/gpu-0")]
    assert harness.reserved_bytes("b") == (GIB, 2 * GIB)
    assert harness.reserved("b").estimated_by == "learned"
    harness = one_worker(gpus=(24,), memory=64, limits={"digits": 3}, cuda_limits={"digits": 2.5})
    harness.place("a", kind="gpu")
    harness.end("a", AttemptEnd.OOM_DEVICE, peak_cuda_memory_bytes=2 * GIB)
    assert harness.assignments() == [("a", "w1/gpu-0")]
    assert harness.reserved("a").cuda_memory_bytes == int(2.5 * GIB)
    harness.end("a", AttemptEnd.OOM_HOST, peak_memory_bytes=3 * GIB - 1)
    assert harness.assignments() == [("a", "w1/gpu-0")], "the host was full below the limit of its type"
    assert harness.reserved("a").memory_bytes == 3 * GIB


def test_t17_a_task_that_was_killed_at_the_largest_limit_ends_out_of_memory() -> None:
    harness = one_worker(cpus=1, memory=16, limits={"digits": 0.5})
    harness.join_worker("w2", cpus=1, memory=0.5)
    harness.place("a")
    kill_at_limit(harness, "a", 0.5)
    assert (harness.task("a").state, harness.task("a").end) == (TaskState.ENDED, AttemptEnd.OOM_HOST)
    assert harness.run_pass() == []


def test_t17_a_task_that_was_killed_at_its_limit_is_tried_again_where_more_is_allowed() -> None:
    harness = SchedulerHarness()
    for name, limit in (("w1", 0.5), ("w2", 0.625), ("w3", 0.5)):
        harness.join_worker(name, cpus=1, memory=16, limits={"digits": limit})
    assert harness.assign("a") == [("a", "w1/cpu-0")]
    assert kill_at_limit(harness, "a", 0.5, peak=0.375) == [("a", "w2/cpu-0")]
    assert harness.reserved("a").memory_bytes == int(0.625 * GIB)
    kill_at_limit(harness, "a", 0.625)
    assert harness.task("a").end is AttemptEnd.OOM_HOST


def test_a_task_that_was_killed_at_its_estimate_is_tried_again_with_more() -> None:
    harness = one_worker(cpus=1, memory=16)
    harness.submit("a", memory=1)
    allowed: list[int] = []
    for _ in range(3):
        assert harness.assignments() == [("a", "w1/cpu-0")]
        allowed.append(int(harness.reserved("a").memory_bytes * 1.2))
        # Its worker may have measured less than the limit, or nothing yet.
        harness.end("a", AttemptEnd.OOM_HOST, limit="estimate", limit_bytes=allowed[-1])
    assert [round(size / GIB, 2) for size in allowed] == [1.2, 1.8, 2.7]
    assert harness.task("a").end is AttemptEnd.OOM_HOST, "after two more attempts, as `retry` says by default"


def test_t17_a_worker_without_a_limit_allows_more_if_it_can_run_such_tasks() -> None:
    harness = one_worker(cpus=1, memory=16, limits={"digits": 0.5})
    harness.join_worker("w2", cpus=1)
    assert harness.assign("a") == [("a", "w1/cpu-0")]
    assert kill_at_limit(harness, "a", 0.5) == [("a", "w2/cpu-0")]
    harness = one_worker(gpus=(24,), memory=16, limits={"digits": 0.5})
    harness.join_worker("w2", cpus=1, memory=16)
    harness.submit("a", kind="gpu")
    assert harness.assign("b", device="w1/gpu-0") == [("a", "w1/gpu-0"), ("b", "w1/gpu-0")]
    for name in ("a", "b"):
        kill_at_limit(harness, name, 0.5)
        assert harness.task(name).end is AttemptEnd.OOM_HOST
    harness = one_worker(cpus=1, memory=16, limits={"digits": 1})
    harness.join_worker("w2", cpus=1, memory=64, types=("faces",))
    harness.place("a")
    harness.end("a", peak_memory_bytes=4 * GIB)
    assert harness.assign("b") == [("b", "w1/cpu-0")]
    kill_at_limit(harness, "b", 1)
    assert harness.task("b").end is AttemptEnd.OOM_HOST


def test_t17_a_retry_waits_and_says_so_if_the_worker_that_allowed_more_is_gone() -> None:
    harness = one_worker(cpus=1, memory=16, limits={"digits": 0.5})
    harness.join_worker("w2", cpus=1, memory=16, limits={"digits": 1})
    assert harness.assign("a", device="cpu-0") == [("a", "w1/cpu-0")]
    harness.lose("w2")
    assert kill_at_limit(harness, "a", 0.5) == [], "the worker may return"
    harness.run_pass(after_s=60)
    assert harness.unschedulable() == {
        "a": "was killed at its memory limit of 512 MiB, and no worker allows tasks of type 'digits' more: "
        "raise max_memory in the catalogue of a worker"
    }
    harness.join_worker("w1", cpus=1, memory=16, limits={"digits": 2})
    assert harness.assignments() == [("a", "w1/cpu-0")]


def test_t17_an_estimate_above_every_limit_is_unschedulable_and_the_limit_is_named() -> None:
    harness = one_worker(gpus=(24,), memory=64, limits={"digits": 1}, cuda_limits={"digits": 4})
    harness.join_worker("w2", gpus=(16,), memory=64, limits={"digits": 2}, cuda_limits={"digits": 3})
    harness.submit("a", memory=3)
    harness.submit("b", kind="gpu", cuda=20)
    assert harness.assign("c", kind="gpu", memory=2, cuda=3) == [("c", "w2/gpu-0")]
    assert harness.unschedulable() == {
        "a": "needs 3 GiB on one host, the most that tasks of type 'digits' may have is 2 GiB "
        "(w2, max_memory in its catalogue): request less, or raise it there",
        "b": "needs 20 GiB on one device, the most that tasks of type 'digits' may have is 4 GiB "
        "(w1/gpu-0, max_cuda_memory in its catalogue): request less, or raise it there",
    }


def test_t17_a_place_is_reserved_only_where_the_estimate_is_allowed() -> None:
    harness = one_worker(cpus=1, memory=16, limits={"digits": 1})
    harness.join_worker("w2", cpus=1, memory=16, types=("digits", "faces"))
    assert len(harness.assign(*"xy", memory=1)) == 2
    harness.submit("a", memory=4)
    harness.submit("z", memory=1)
    assert harness.freed("x") == [("z", "w1/cpu-0")]
    assert harness.assignments(after_s=1) == [] and harness.assignments(after_s=120) == []
    [scheduling_class] = [each for each in harness.cluster.waiting.classes.values() if each.size]
    assert scheduling_class.reserved_worker_id == "w2"


def test_t17_what_was_learned_is_cut_to_a_worker_that_has_the_devices_and_the_memory_of_both_kinds() -> None:
    """A larger worker without them counted: the task was cut to what is there, and fitted nowhere."""
    harness = one_worker(gpus=(24, 24, 8), memory=16, limits={"digits": 1})
    harness.join_worker("w2", cpus=1, gpus=(4,), memory=64)
    harness.place("a", kind="cpu")
    harness.end("a", peak_memory_bytes=4 * GIB, peak_cuda_memory_bytes=20 * GIB)
    harness.submit("b", kind="gpu", devices=2)
    assert harness.assign("c", kind="gpu", devices=3) == [("b", "w1/gpu-0+gpu-1")]
    assert harness.reserved("b").memory_bytes == GIB
    harness.end("b", peak_memory_bytes=GIB)
    assert harness.assignments() == [("c", "w1/gpu-0+gpu-1+gpu-2")]
    assert harness.reserved("c").cuda_memory_bytes == 8 * GIB
    harness = one_worker(gpus=(24,), memory=2)
    harness.join_worker("w2", gpus=(4,), memory=64)
    harness.submit("a", device="w2/gpu-0")
    harness.place("x", device="w1/gpu-0")
    harness.end("a", peak_memory_bytes=10 * GIB)
    harness.end("x", peak_memory_bytes=GIB, peak_cuda_memory_bytes=10 * GIB)
    assert harness.assign("b", kind="gpu") == [("b", "w1/gpu-0")]
    assert harness.reserved_bytes("b") == (2 * GIB, 11 * GIB)
