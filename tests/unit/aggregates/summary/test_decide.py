"""Summary jobs: what is decided about commands, and the fold, in which bytes count once and in order."""

from typing import Any

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
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.summary.messages import (
    MAX_FILES,
    AnnotateSummaryJob,
    CacheTrainJob,
    DeleteSummaryJob,
    RegisterSummaryDirectory,
    RestoreSummaryJob,
    RetrySummaryFile,
    SummarizedTask,
    SummaryFileRetried,
    SummaryFileStatus,
    SummaryJobAnnotated,
    SummaryJobDeleted,
    SummaryJobFound,
    SummaryJobRestored,
    SummaryJobSpec,
    directory_job_id,
    task_job_id,
)
from trackside.aggregates.summary.state import Summary
from trackside.contracts.envelope.message import Command, Event
from trackside.contracts.envelope.refusals import Problem
from trackside.domain.folding.lookup import NO_LOOKUP
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import Stream

REGISTER = RegisterSummaryDirectory(base="/data", path="runs/1")


def decided(stream: Stream, command: Command) -> Any:
    handler = AGGREGATES.by_kind["summary"].commands[type(command)]
    return handler(stream, command, "c-9", NO_LOOKUP)


def nothing(stream_id: str = "summary-1") -> Stream:
    return Stream(stream_id, 0)


def test_a_directory_is_registered_once_under_an_id_of_its_own() -> None:
    assert [type(event) for event in decided(nothing(), REGISTER)] == [SummaryJobFound]
    assert decided(found().stream, REGISTER) == []
    other = decided(found().stream, RegisterSummaryDirectory(base="/data", path="runs/2"))
    assert isinstance(other, Problem) and other.code == "already_exists"
    ids = {directory_job_id(b"/a", b"b/c"), directory_job_id(b"/a/b", b"c"), task_job_id("b/c")}
    assert (len(ids), directory_job_id(b"/a", b"\xff")) == (3, directory_job_id(b"/a", b"\xff"))


@pytest.mark.parametrize(
    "command", [CacheTrainJob(), RetrySummaryFile(), RestoreSummaryJob(), DeleteSummaryJob()]
)
def test_a_command_for_no_job_is_refused(command: Command) -> None:
    """S5: TrainJobNotExist."""
    problem = decided(nothing(), command)
    assert problem.code == "unknown_summary"


def test_only_quarantined_files_are_retried_and_an_unknown_one_is_refused_with_the_nearest() -> None:
    told = found()
    tell(told, indexed(0, 10), indexed(0, 4, "other"), quarantined(10))
    (event,) = decided(told.stream, RetrySummaryFile())
    assert (event.file, event.change, decided(told.stream, RetrySummaryFile(file="other"))) == (A, 1, [])
    problem = decided(told.stream, RetrySummaryFile(file="othr"))
    assert problem.code == "unknown_summary_file"
    assert "other" in problem.message


@pytest.mark.parametrize("tag", [3, None])
def test_the_first_annotation_of_a_task_or_that_it_is_loaded_begins_its_job(tag: int | None) -> None:
    def command(task: Any) -> Command:
        return AnnotateSummaryJob(task=task, tag=tag, remark="base") if tag else CacheTrainJob(task=task)

    first, *changed = decided(nothing(task_job_id("s.1")), command(TASK))
    assert (type(first), first.job.task) == (SummaryJobFound, TASK)
    annotated = SummaryJobAnnotated(command_id="c-9", change=1, tag=3, remark="base")
    assert changed == ([annotated] if tag else [])
    problem = decided(nothing("elsewhere"), command(TASK))
    assert problem.code == "unknown_summary"
    assert task_job_id("s.1") in problem.message
    begun = found().stream
    assert decided(begun, CacheTrainJob()) == [], "one that has begun stays as it is"
    assert decided(begun, CacheTrainJob(task=TASK)).code == "unknown_summary"


def test_an_annotation_keeps_what_it_does_not_name() -> None:
    told = found()
    told.tell(SummaryJobAnnotated(command_id="c-2", change=1, tag=3, remark="baseline"))
    (event,) = decided(told.stream, AnnotateSummaryJob(tag=0))
    assert (event.change, event.tag, event.remark) == (2, 0, "baseline")
    assert decided(told.stream, AnnotateSummaryJob(tag=3)) == []
    other = AnnotateSummaryJob(task=SummarizedTask(stream="s", task="s.2"), tag=1)
    assert decided(told.stream, other).code == "unknown_summary"


@pytest.mark.parametrize(("tag", "remark"), [(11, None), (-1, None), (None, "x" * 129), (True, None)])
def test_a_tag_over_10_and_a_remark_over_128_characters_are_refused(tag: Any, remark: Any) -> None:
    with pytest.raises(ValueError, match=r"tag|remark"):
        AnnotateSummaryJob(tag=tag, remark=remark)


def test_a_job_is_deleted_once_and_restored_once() -> None:
    told = found()
    (deleted,) = decided(told.stream, DeleteSummaryJob(reason="wrong"))
    assert (type(deleted), deleted.reason) == (SummaryJobDeleted, "wrong")
    assert decided(told.stream, RestoreSummaryJob()) == []
    told.tell(deleted)
    assert decided(told.stream, DeleteSummaryJob()) == []
    assert decided(told.stream, DeleteSummaryJob(purge=True))[0].purge
    (restored,) = decided(told.stream, RestoreSummaryJob())
    assert restored.change == 2


RETRIED = SummaryFileRetried(command_id="c-2", change=1, file=A)
DELETED = SummaryJobDeleted(command_id="c-3", change=1)
RESTORED = SummaryJobRestored(command_id="c-4", change=2)


def job(told: object) -> Summary:
    root = told.stream.root  # type: ignore[attr-defined]
    assert isinstance(root, Summary)
    return root


@pytest.mark.parametrize(
    ("event", "outcome"),
    [
        *((indexed(10, 20), Outcome.APPLIED), (indexed(0, 10), Outcome.OVERTAKEN)),
        *((indexed(5, 20), Outcome.OVERTAKEN), (indexed(11, 20), Outcome.OVERTAKEN)),
        *((indexed(10, 10), Outcome.OVERTAKEN), (indexed(10, 20, sequence=1), Outcome.DUPLICATE)),
        *((indexed(10, 20, sequence=3), Outcome.OVERTAKEN), (indexed(0, 5, B), Outcome.APPLIED)),
        *((indexed(0, 0, B), Outcome.APPLIED), (indexed(5, 9, B), Outcome.OVERTAKEN)),
        *((replaced(), Outcome.APPLIED), (replaced(B), Outcome.OVERTAKEN)),
        *((quarantined(10), Outcome.APPLIED), (quarantined(9), Outcome.OVERTAKEN)),
        *((quarantined(0, B), Outcome.OVERTAKEN), (RETRIED, Outcome.OVERTAKEN)),
        *((vanished(), Outcome.APPLIED), (RESTORED, Outcome.OVERTAKEN), (DELETED, Outcome.APPLIED)),
        (SummaryJobAnnotated(command_id="c-5", change=1, tag=3), Outcome.APPLIED),
        (SummaryJobAnnotated(command_id="c-5", change=2, tag=3), Outcome.OVERTAKEN),
        (SummaryJobFound(command_id="c-6", job=SummaryJobSpec(base="x", path="y")), Outcome.DUPLICATE),
    ],
)
def test_only_what_follows_has_an_effect(event: Event, outcome: Outcome) -> None:
    told = found()
    tell(told, indexed(0, 10))
    before = repr(job(told))
    assert (tell(told, event), repr(job(told)) != before) == ([outcome], outcome is Outcome.APPLIED)


def test_files_are_numbered_in_the_order_of_the_log_and_a_replaced_one_anew() -> None:
    told, first = found(), indexed(0, 10, sequence=1)
    assert tell(told, first, indexed(0, 0, B), replaced()) == [Outcome.APPLIED] * 3
    assert (tell(told, first), job(told).files[A].end) == ([Outcome.DUPLICATE], 0)
    tell(told, indexed(0, 7))
    files = job(told).files
    assert {name: (file.number, file.end) for name, file in files.items()} == {A: (3, 7), B: (2, 0)}


def test_a_quarantined_file_is_read_again_on_command_and_well_once_it_is_indexed_further() -> None:
    told = found()
    tell(told, indexed(0, 10), quarantined(10))
    file = job(told).files[A]
    assert (file.status, file.again_at_ms) == (SummaryFileStatus.QUARANTINED, 5_000)
    assert tell(told, RETRIED, RETRIED) == [Outcome.APPLIED, Outcome.DUPLICATE]
    assert job(told).files[A].again_at_ms == 0
    tell(told, indexed(10, 30))
    assert (job(told).files[A].status, job(told).files[A].code) == (SummaryFileStatus.INDEXED, "")


def test_nothing_of_a_deleted_job_is_indexed_until_it_is_restored() -> None:
    told = found()
    tell(told, indexed(0, 10), DELETED)
    assert tell(told, indexed(10, 20), vanished()) == [Outcome.OVERTAKEN] * 2
    assert tell(told, RESTORED, indexed(10, 20)) == [Outcome.APPLIED] * 2


def test_a_directory_that_vanished_is_active_again_with_its_next_bytes_and_a_task_has_no_files() -> None:
    told = found()
    tell(told, indexed(0, 10), vanished())
    assert tell(told, vanished()) == [Outcome.OVERTAKEN]
    tell(told, indexed(10, 11))
    assert job(told).status.value == "ACTIVE"
    told = found(SummaryJobSpec(task=TASK))
    assert tell(told, indexed(0, 10), vanished()) == [Outcome.OVERTAKEN] * 2


def test_what_is_as_it_was_again_needs_no_new_bytes() -> None:
    told = found()
    tell(told, indexed(0, 10), quarantined(10))
    assert tell(told, indexed(10, 10)) == [Outcome.APPLIED]
    assert tell(told, indexed(10, 10)) == [Outcome.OVERTAKEN]
    assert job(told).files[A].status is SummaryFileStatus.INDEXED
    tell(told, vanished())
    assert tell(told, indexed(9, 9)) == [Outcome.OVERTAKEN]
    assert (tell(told, indexed(10, 10)), job(told).status.value) == ([Outcome.APPLIED], "ACTIVE")


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
