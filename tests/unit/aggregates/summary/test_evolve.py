"""The fold of summary jobs: bytes count once and in order, whoever reads a file and how often."""

import pytest

from tests.unit.aggregates.summary.given import (
    TASK,
    A,
    B,
    found,
    indexed,
    quarantined,
    replaced,
    tell,
    vanished,
)
from trackside.aggregates.summary.messages import (
    MAX_FILES,
    SummaryFileRetried,
    SummaryFileStatus,
    SummaryJobAnnotated,
    SummaryJobDeleted,
    SummaryJobFound,
    SummaryJobRestored,
    SummaryJobSpec,
)
from trackside.aggregates.summary.state import Summary
from trackside.contracts.message import Event
from trackside.domain.outcome import Outcome

RETRIED = SummaryFileRetried(command_id="c-2", change=1, file=A)
DELETED, RESTORED = (
    SummaryJobDeleted(command_id="c-3", change=1),
    SummaryJobRestored(command_id="c-4", change=2),
)


def job(told: object) -> Summary:
    root = told.stream.root  # type: ignore[attr-defined]
    assert isinstance(root, Summary)
    return root


@pytest.mark.parametrize(
    ("event", "outcome"),
    [
        (indexed(10, 20), Outcome.APPLIED),
        (indexed(0, 10), Outcome.OVERTAKEN),
        (indexed(5, 20), Outcome.OVERTAKEN),
        (indexed(11, 20), Outcome.OVERTAKEN),
        (indexed(10, 10), Outcome.OVERTAKEN),
        (indexed(10, 20, sequence=1), Outcome.DUPLICATE),
        (indexed(10, 20, sequence=3), Outcome.OVERTAKEN),
        (indexed(0, 5, B), Outcome.APPLIED),
        (indexed(0, 0, B), Outcome.APPLIED),
        (indexed(5, 9, B), Outcome.OVERTAKEN),
        (replaced(), Outcome.APPLIED),
        (replaced(B), Outcome.OVERTAKEN),
        (quarantined(10), Outcome.APPLIED),
        (quarantined(9), Outcome.OVERTAKEN),
        (quarantined(0, B), Outcome.OVERTAKEN),
        (RETRIED, Outcome.OVERTAKEN),
        (vanished(), Outcome.APPLIED),
        (RESTORED, Outcome.OVERTAKEN),
        (DELETED, Outcome.APPLIED),
        (SummaryJobAnnotated(command_id="c-5", change=1, tag=3), Outcome.APPLIED),
        (SummaryJobAnnotated(command_id="c-5", change=2, tag=3), Outcome.OVERTAKEN),
        (SummaryJobFound(command_id="c-6", job=SummaryJobSpec(base="x", path="y")), Outcome.DUPLICATE),
    ],
)
def test_only_what_follows_has_an_effect(event: Event, outcome: Outcome) -> None:
    told = found()
    tell(told, indexed(0, 10))
    before = repr(job(told))
    assert tell(told, event) == [outcome]
    assert (repr(job(told)) != before) == (outcome is Outcome.APPLIED)


def test_files_are_numbered_in_the_order_of_the_log_and_a_replaced_one_anew() -> None:
    told = found()
    tell(told, indexed(0, 10), indexed(0, 0, B), replaced(), indexed(0, 7))
    files = job(told).files
    assert {name: (file.number, file.end) for name, file in files.items()} == {A: (3, 7), B: (2, 0)}


def test_what_was_indexed_of_a_file_has_no_second_effect_after_it_was_replaced() -> None:
    told = found()
    first = indexed(0, 10, sequence=1)
    assert tell(told, first, replaced(), first) == [Outcome.APPLIED, Outcome.APPLIED, Outcome.DUPLICATE]
    assert job(told).files[A].end == 0


def test_a_quarantined_file_is_read_again_on_command_and_well_once_it_is_indexed_further() -> None:
    told = found()
    tell(told, indexed(0, 10), quarantined(10))
    assert (job(told).files[A].status, job(told).files[A].again_at_ms) == (
        SummaryFileStatus.QUARANTINED,
        5_000,
    )
    assert tell(told, RETRIED, RETRIED) == [Outcome.APPLIED, Outcome.DUPLICATE]
    assert job(told).files[A].again_at_ms == 0
    tell(told, indexed(10, 30))
    assert (job(told).files[A].status, job(told).files[A].code) == (SummaryFileStatus.INDEXED, "")


def test_nothing_of_a_deleted_job_is_indexed_until_it_is_restored() -> None:
    """S13."""
    told = found()
    tell(told, indexed(0, 10), DELETED)
    assert tell(told, indexed(10, 20), vanished()) == [Outcome.OVERTAKEN] * 2
    assert tell(told, RESTORED, indexed(10, 20)) == [Outcome.APPLIED] * 2


def test_a_directory_that_vanished_is_active_again_with_its_next_bytes() -> None:
    told = found()
    tell(told, indexed(0, 10), vanished())
    assert tell(told, vanished()) == [Outcome.OVERTAKEN]
    tell(told, indexed(10, 11))
    assert job(told).status.value == "ACTIVE"


def test_what_is_as_it_was_again_needs_no_new_bytes() -> None:
    """S18."""
    told = found()
    tell(told, indexed(0, 10), quarantined(10))
    assert tell(told, indexed(10, 10)) == [Outcome.APPLIED]
    assert tell(told, indexed(10, 10)) == [Outcome.OVERTAKEN]
    assert job(told).files[A].status is SummaryFileStatus.INDEXED
    tell(told, vanished())
    assert tell(told, indexed(9, 9)) == [Outcome.OVERTAKEN]
    assert tell(told, indexed(10, 10)) == [Outcome.APPLIED]
    assert job(told).status.value == "ACTIVE"


def test_the_job_of_a_task_has_no_files() -> None:
    told = found(SummaryJobSpec(task=TASK))
    assert tell(told, indexed(0, 10), vanished()) == [Outcome.OVERTAKEN] * 2


def test_a_job_has_a_limit_of_files() -> None:
    told = found()
    assert set(tell(told, *(indexed(0, 1, f"f{number}") for number in range(MAX_FILES)))) == {Outcome.APPLIED}
    assert tell(told, indexed(0, 1, "one more")) == [Outcome.OVERTAKEN]


def test_a_purged_job_that_is_restored_reads_its_files_again_under_new_numbers() -> None:
    told = found()
    tell(told, indexed(0, 10), indexed(0, 5, B), DELETED)
    purged = SummaryJobDeleted(command_id="c-7", change=2, purge=True)
    assert tell(told, purged, purged.model_copy(update={"change": 3})) == [Outcome.APPLIED, Outcome.OVERTAKEN]
    tell(told, SummaryJobRestored(command_id="c-8", change=3), indexed(0, 10, B))
    assert {name: file.number for name, file in job(told).files.items()} == {B: 3}
    assert not job(told).purged


def test_a_fingerprint_is_that_of_the_newest_bytes() -> None:
    told = found()
    known = []
    for event in (
        indexed(0, 10).model_copy(update={"fingerprint": "a"}),
        indexed(10, 10),  # it is as it was, after it was quarantined
        indexed(10, 20).model_copy(update={"fingerprint": "b"}),
        indexed(20, 30),  # by an older release, which knows none
    ):
        if event.begin == event.end:
            tell(told, quarantined(10))
        assert tell(told, event) == [Outcome.APPLIED]
        known.append(told.stream.root.files[A].fingerprint)
    assert known == ["a", "a", "b", ""]
