"""What a snapshot of a job takes: of its past it keeps which versions were live, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.aggregates.rounds.given import JOB, MODEL, UPDATE, JobLog, digest, job_body
from trackside.aggregates.rounds.job.version_bitset import has_number, largest, with_number
from trackside.aggregates.rounds.messages import RollbackModel
from trackside.projections.writing.snapshots import checkpoint


def size(log: JobLog) -> int:
    (row,) = checkpoint(0, len(log.records), [log.streams.by_id[JOB]]).rows
    return len(row[-1].encode())


def sizes_after(log: JobLog, *rounds: int) -> list[int]:
    found = []
    for number in range(1, max(rounds) + 1):
        log.now_ms += 60_000
        log.next_round()
        found += [size(log)] if number in rounds else []
    assert (log.job.ended_rounds, log.job.failed_rounds) == (max(rounds), 0)
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("every", [1, 2], ids=["each round", "each second round"])
def test_a_snapshot_after_100_rounds_is_hardly_larger_than_that_after_10(every: int) -> None:
    log = JobLog()
    log.next_accuracy = lambda number: 0.0 if number % every else number + 1.0
    log.create()
    few, many = sizes_after(log, 10, 100)
    assert largest(log.job.was_live[MODEL], 200) == list(range(1 + every, 102, every))
    assert many < few + 100


@pytest.mark.thorough
def test_any_version_that_was_live_can_be_live_again_and_no_other_one() -> None:
    log = JobLog()
    log.next_accuracy = lambda number: number + 1.0 if number % 2 else 0.0
    log.create()
    sizes_after(log, 50)
    assert log.job.newest_live == list(range(12, 51, 2))
    log.command(JOB, RollbackModel(version=2))
    log.work()
    assert (log.job.live.version, log.job.update) == (2, None)
    log.command(JOB, RollbackModel(version=3))
    assert log.job.rollback_to is None


def test_versions_that_were_live_are_those_of_one_model_and_of_the_models_before() -> None:
    log = JobLog()
    log.create(deploy={})
    sizes_after(log, 3)
    log.command("other", "trackside.register-model.v1", {})
    for number in (1, 2, 3):
        sha256 = digest(f"other {number}")
        artifact = {"uri": f"store:sha256/{sha256}", "sha256": sha256, "size_bytes": 8}
        body = {"artifact": artifact, "format": "safetensors"}
        log.command("other", "trackside.add-model-version.v1", body)
    body = {"job": job_body(deploy={}, model="other")}
    log.command(JOB, UPDATE, body)
    assert log.refused(RollbackModel(version=2)) == "never_live"
    log.command(JOB, RollbackModel(version=2, model=MODEL))
    log.work()
    assert (log.job.live.model, log.job.live.version) == (MODEL, 2)


NUMBERS = st.lists(st.integers(0, 500), max_size=60)


@given(NUMBERS)
def test_a_set_has_what_was_added_in_any_order_and_nothing_else(numbers: list[int]) -> None:
    found = ""
    for number in numbers:
        found = with_number(found, number)
    assert [number for number in range(600) if has_number(found, number)] == sorted(set(numbers))
    assert (largest(found, 1_000), largest(found, 3)) == (sorted(set(numbers)), sorted(set(numbers))[-3:])


def test_a_set_takes_a_quarter_of_a_byte_a_number() -> None:
    found = ""
    for number in range(1, 1_001):
        found = with_number(found, number)
    assert len(found) == 251
    assert not has_number(found, 0)
    assert not has_number(found, -1)
    assert not has_number("", 0)
    assert with_number("6", -1) == with_number("6", 2**60) == "6"
