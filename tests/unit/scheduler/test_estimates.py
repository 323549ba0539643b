"""How much memory is reserved for a task, and where the number comes from."""

import pytest

from tests.unit.scheduler.given import GIB
from tests.unit.scheduler.harness import SchedulerHarness
from trackside.contracts.tasks import AttemptEnd

NO_RETRY = {"retry": dict.fromkeys(("lost", "oom_host", "oom_device"), 0)}


def test_t17_a_task_s_own_word_counts_first_then_what_its_type_used_then_a_default() -> None:
    harness = SchedulerHarness()
    harness.join_worker(gpus=(24,) * 3, memory=64)
    harness.submit("a", kind="gpu")
    harness.run_pass()
    reserved = harness.task("a").attempt.reserved
    assert (reserved.memory_bytes, reserved.estimated_by) == (2 * GIB, "default")
    harness.accept("a")
    harness.end("a", peak_memory_bytes=10 * GIB, peak_cuda_memory_bytes=5 * GIB)
    harness.submit("b", kind="gpu")
    harness.submit("c", kind="gpu", memory=1, cuda=1)
    harness.run_pass()
    learned, own = harness.task("b").attempt.reserved, harness.task("c").attempt.reserved
    assert (learned.memory_bytes, learned.cuda_memory_bytes) == (int(11 * GIB), int(5.5 * GIB))
    assert (own.memory_bytes, own.cuda_memory_bytes, own.estimated_by) == (GIB, GIB, "task")
    assert learned.estimated_by == "learned"


def test_t21_estimates_follow_the_newest_twenty_that_finished() -> None:
    harness = SchedulerHarness()
    harness.join_worker(cpus=1, memory=64)
    for number, peak in enumerate([30] + [3] * 20):
        harness.submit(f"t{number}")
        harness.run_pass()
        harness.end(f"t{number}", peak_memory_bytes=peak * GIB)
    harness.submit("last")
    harness.run_pass()
    assert harness.task("last").attempt.reserved.memory_bytes == int(3 * GIB * 1.1)


def test_peaks_of_older_logs_that_count_what_all_tasks_share_are_not_learned() -> None:
    harness = SchedulerHarness()
    harness.join_worker(cpus=1, memory=64)
    harness.submit("a")
    harness.run_pass()
    harness.end("a", peak_memory_bytes=30 * GIB, memory_measure="resident")
    assert harness.task("a").attempt.peak_memory_bytes == 0
    harness.submit("b")
    harness.run_pass()
    assert harness.task("b").attempt.reserved.estimated_by == "default"


@pytest.mark.parametrize("end", sorted(set(AttemptEnd) - {AttemptEnd.FINISHED, AttemptEnd.PREEMPTED}))
def test_t21_an_attempt_that_did_not_finish_teaches_nothing(end: AttemptEnd) -> None:
    harness = SchedulerHarness()
    harness.join_worker(gpus=(24,), memory=64)
    harness.submit("a", kind="gpu", needs=NO_RETRY)
    harness.run_pass()
    harness.end("a", end, peak_memory_bytes=60 * GIB, peak_cuda_memory_bytes=20 * GIB)
    assert harness.task("a").end is end
    harness.submit("b", kind="gpu")
    harness.run_pass()
    reserved = harness.task("b").attempt.reserved
    assert (reserved.memory_bytes, reserved.cuda_memory_bytes) == (2 * GIB, 2 * GIB)
    assert reserved.estimated_by == "default"


def test_t21_of_a_task_that_was_tried_again_only_the_attempt_that_finished_is_learned_from() -> None:
    harness = SchedulerHarness()
    harness.join_worker(cpus=1, memory=64)
    harness.submit("a", needs={"retry": {"failed": 1}})
    for end, peak in ((AttemptEnd.FAILED, 60), (AttemptEnd.FINISHED, 3)):
        harness.run_pass()
        harness.end("a", end, peak_memory_bytes=peak * GIB)
    harness.submit("b")
    harness.run_pass()
    assert harness.task("b").attempt.reserved.memory_bytes == int(3 * GIB * 1.1)


def test_a_task_that_ran_out_of_memory_gets_more_and_at_most_what_the_largest_device_has() -> None:
    harness = SchedulerHarness()
    harness.join_worker("w1", gpus=(8,))
    harness.join_worker("w2", gpus=(12,))
    harness.submit("a", kind="gpu", cuda=6)
    seen = []
    for _ in range(3):
        seen += [where for _, where in harness.assignments()]
        reserved = harness.task("a").attempt.reserved
        harness.end("a", AttemptEnd.OOM_DEVICE, peak_cuda_memory_bytes=reserved.cuda_memory_bytes)
    assert seen == ["w1/gpu-0", "w2/gpu-0", "w2/gpu-0"]
    assert reserved.cuda_memory_bytes == 12 * GIB
    assert reserved.estimated_by == "raised"


def test_t17_the_reservation_says_that_the_estimate_is_the_groups() -> None:
    harness = SchedulerHarness()
    harness.join_worker(gpus=(24, 24), memory=64)
    harness.submit("a", kind="gpu", memory=1, cuda=2, estimated_by="group")
    harness.submit("b", kind="gpu", memory=1, cuda=2)
    harness.run_pass()
    by = {name: harness.task(name).attempt.reserved.estimated_by for name in ("a", "b")}
    assert by == {"a": "group", "b": "task"}


def test_t17_what_a_group_says_is_no_more_cut_than_what_a_task_says() -> None:
    harness = SchedulerHarness()
    harness.join_worker(gpus=(24,))
    harness.submit("a", kind="gpu", cuda=80, estimated_by="group")
    harness.run_pass()
    assert "needs 80 GiB" in harness.unschedulable()["a"]
