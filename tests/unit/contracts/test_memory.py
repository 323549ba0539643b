"""T23: amounts of memory as people write them."""

import pytest
from pydantic import ValidationError

from trackside.aggregates.batch.messages import GroupSpec, SubmitTasks, TaskSpec, estimated_by, needs_of
from trackside.contracts.envelope.memory import bytes_of, shown
from trackside.contracts.envelope.refusals import field_names, problem_of
from trackside.contracts.tasks.resources import Resources, Retry, RetryPolicy


def test_t23_every_unit_of_1000_and_of_1024_is_read() -> None:
    binary = {"789MiB": 789 * 2**20, "2GiB": 2 * 2**30, "1.5 GiB": 3 * 2**29, "1TiB": 2**40, "2KiB": 2048}
    plain = {"100": 100, "100B": 100, "0.3B": 1, f"{2**60 - 1}B": 2**60 - 1}
    decimal = {"1.5KB": 1_500, "3kB": 3_000, "2 GB": 2_000_000_000, "0.1TB": 100_000_000_000}
    for text, size in {**binary, **plain, **decimal}.items():
        assert bytes_of(text) == size, text


def test_t23_what_is_no_amount_is_refused_with_what_is_expected() -> None:
    for text in ("", "GB", "2Gb", "-1GB", "1e3", "two GB", "2XB", "2iB", "1.5.2GB", "2 G", "NaN"):
        with pytest.raises(ValueError, match="expected bytes, or a number with B, KB") as refused:
            bytes_of(text)
        assert ("a small b would be bits" in str(refused.value)) == (text == "2Gb")


def test_an_amount_is_shown_in_the_largest_unit_that_fits() -> None:
    shown_texts = [shown(size) for size in (0, 1536, 24 * 2**30, 2**41)]
    assert shown_texts == ["0 B", "1.5 KiB", "24 GiB", "2 TiB"]


def test_what_a_task_cannot_ask_for_is_refused_with_its_place() -> None:
    cases: list[tuple[dict[str, object], str, str]] = [
        ({"estimate_memory": "2 Gb"}, "bad_memory", ".estimate_memory"),
        ({"estimate_memory": 0}, "estimate_memory_range", ".estimate_memory"),
        ({"estimate_cuda_memory": "0 GiB"}, "estimate_cuda_memory_range", ".estimate_cuda_memory"),
        ({"devices": -1}, "devices_range", ".devices"),
        ({"devices": 2, "device": "gpu-1"}, "bad_resources", ""),
        ({"kind": "cpu", "estimate_cuda_memory": 1}, "bad_resources", ""),
        ({"kind": "tpu"}, "unknown_value", ".kind"),
    ]
    for resources, code, path in cases:
        body = {"groups": [{"tasks": [{"task_type": "noop"}]}], "resources": resources}
        with pytest.raises(ValidationError) as raised:
            SubmitTasks.model_validate(body)
        problem = problem_of(raised.value, field_names(SubmitTasks), body)
        assert (problem.code, problem.path) == (code, f"$.resources{path}")


def test_a_retry_is_a_number_or_a_rule_and_is_written_as_short_as_it_can_be() -> None:
    policy = RetryPolicy.model_validate({"lost": 1, "failed": {"times": 2, "backoff_s": 5.0}})
    assert policy.lost == Retry(times=1)
    written = policy.model_dump(mode="json")
    assert written["lost"] == 1
    assert written["failed"]["backoff_s"] == 5.0
    assert RetryPolicy.model_validate(written) == policy


def test_t17_a_task_s_own_estimate_comes_before_its_group_s_and_that_before_its_batch_s() -> None:
    own = TaskSpec(task_type="noop", resources=Resources(estimate_memory=1))
    plain = TaskSpec(task_type="noop", priority=9)
    group = GroupSpec(tasks=[own, plain], estimate_memory=2, estimate_cuda_memory=3, device="gpu-1")
    whole = Resources(whole_device=True)
    batch = SubmitTasks(groups=[group], resources=whole, priority=2, run_timeout_s=60.0)
    merged = Resources(estimate_memory=1, estimate_cuda_memory=3, device="gpu-1")
    assert needs_of(batch, group, own).resources == merged
    needs = needs_of(batch, group, plain)
    assert (needs.resources.estimate_memory, needs.resources.whole_device) == (2, True)
    assert (needs.priority, needs_of(batch, group, own).priority) == (9, 2)
    assert (estimated_by(needs_of(batch, group, own), own), estimated_by(needs, plain)) == ("task", "group")
    nobody = needs_of(batch, GroupSpec(tasks=[plain]), plain)
    assert estimated_by(nobody, plain) == "task", "there is no estimate"
    assert needs.run_timeout_s == 60.0
