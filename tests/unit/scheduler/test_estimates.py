"""How much memory is reserved for a task, and where the number comes from."""

import pytest

from tests.unit.scheduler.given import GIB
from tests.unit.scheduler.harness import one_worker
from trackside.contracts.tasks.tasks import AttemptEnd

NO_RETRY = {"retry": dict.fromkeys(("lost", "oom_host", "oom_device"), 0)}


def test_t17_a_task_s_own_word_counts_first_then_what_its_type_used_then_a_default() -> None:
    harness = one_worker(gpus=(24,) * 3, memory=64)
    harness.place("a", kind="gpu")
    reserved = harness.reserved("a")
    assert (reserved.memory_bytes, reserved.estimated_by) == (2 * GIB, "default")
    harness.end("a", peak_memory_bytes=10 * GIB, peak_cuda_memory_bytes=5 * GIB)
    harness.submit("b", kind="gpu")
    harness.place("c", kind="gpu", memory=1, cuda=1)
    learned, own = harness.reserved("b"), harness.reserved("c")
    assert (learned.memory_bytes, learned.cuda_memory_bytes) == (int(11 * GIB), int(5.5 * GIB))
    assert (own.memory_bytes, own.cuda_memory_bytes, own.estimated_by) == (GIB, GIB, "task")
    assert learned.estimated_by == "learned"


def test_t21_estimates_follow_the_newest_twenty_attempts_that_finished() -> None:
    harness = one_worker(cpus=1, memory=64)
    for number, peak in enumerate([30] + [3] * 20):
        harness.place(f"t{number}")
        harness.end(f"t{number}", peak_memory_bytes=peak * GIB)
    harness.place("last")
    assert harness.reserved("last").memory_bytes == int(3 * GIB * 1.1)
    harness = one_worker(cpus=1, memory=64)
    harness.submit("a", needs={"retry": {"failed": 1}})
    for end, peak in ((AttemptEnd.FAILED, 60), (AttemptEnd.FINISHED, 3)):
        harness.run_pass()
        harness.end("a", end, peak_memory_bytes=peak * GIB)
    harness.place("b")
    assert harness.reserved("b").memory_bytes == int(3 * GIB * 1.1)
    harness = one_worker(cpus=1, memory=64)
    harness.place("a")
    harness.end("a", peak_memory_bytes=30 * GIB, memory_measure="resident")
    assert harness.task("a").attempt.peak_memory_bytes == 0
    harness.place("b")
    assert harness.reserved("b").estimated_by == "default"


@pytest.mark.parametrize("end", sorted(set(AttemptEnd) - {AttemptEnd.FINISHED, AttemptEnd.PREEMPTED}))
def test_t21_an_attempt_that_did_not_finish_teaches_nothing(end: AttemptEnd) -> None:
    harness = one_worker(gpus=(24,), memory=64)
    harness.place("a", kind="gpu", needs=NO_RETRY)
    harness.end("a", end, peak_memory_bytes=60 * GIB, peak_cuda_memory_bytes=20 * GIB)
    assert harness.task("a").end is end
    harness.place("b", kind="gpu")
    assert harness.reserved_bytes("b") == (2 * GIB, 2 * GIB)
    assert harness.reserved("b").estimated_by == "default"


def test_a_task_that_ran_out_of_memory_gets_more_and_at_most_what_the_largest_device_has() -> None:
    harness = one_worker(gpus=(8,))
    harness.join_worker("w2", gpus=(12,))
    harness.submit("a", kind="gpu", cuda=6)
    seen = []
    for _ in range(3):
        seen += [where for _, where in harness.assignments()]
        reserved = harness.reserved("a")
        harness.end("a", AttemptEnd.OOM_DEVICE, peak_cuda_memory_bytes=reserved.cuda_memory_bytes)
    assert seen == ["w1/gpu-0", "w2/gpu-0", "w2/gpu-0"]
    assert reserved.cuda_memory_bytes == 12 * GIB
    assert reserved.estimated_by == "raised"


def test_t17_what_a_group_says_is_told_apart_and_no_more_cut_than_what_a_task_says() -> None:
    harness = one_worker(gpus=(24, 24), memory=64)
    harness.submit("a", kind="gpu", memory=1, cuda=2, estimated_by="group")
    harness.place("b", kind="gpu", memory=1, cuda=2)
    by = {name: harness.reserved(name).estimated_by for name in ("a", "b")}
    assert by == {"a": "group", "b": "task"}
    harness = one_worker(gpus=(24,))
    harness.place("a", kind="gpu", cuda=80, estimated_by="group")
    assert "needs 80 GiB" in harness.unschedulable()["a"]
