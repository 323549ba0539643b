"""What the dispatcher decides about commands for summary jobs."""

from typing import Any

import pytest

from tests.unit.aggregates.summary.given import TASK, A, found, indexed, quarantined, tell
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.summary.messages import (
    AnnotateSummaryJob,
    CacheTrainJob,
    DeleteSummaryJob,
    RegisterSummaryDirectory,
    RestoreSummaryJob,
    RetrySummaryFile,
    SummarizedTask,
    SummaryJobAnnotated,
    SummaryJobDeleted,
    SummaryJobFound,
    directory_job_id,
    task_job_id,
)
from trackside.contracts.message import Command
from trackside.contracts.refusals import Problem
from trackside.domain.lookup import NO_LOOKUP
from trackside.domain.stream import Stream

REGISTER = RegisterSummaryDirectory(base="/data", path="runs/1")


def decided(stream: Stream, command: Command) -> Any:
    """Returns what is decided about a command."""
    handler = AGGREGATES.by_kind["summary"].commands[type(command)]
    return handler(stream, command, "c-9", NO_LOOKUP)


def nothing(stream_id: str = "summary-1") -> Stream:
    return Stream(stream_id, 0)


def test_a_directory_is_registered_once() -> None:
    events = decided(nothing(), REGISTER)
    assert [type(event) for event in events] == [SummaryJobFound]
    assert decided(found().stream, REGISTER) == []
    other = decided(found().stream, RegisterSummaryDirectory(base="/data", path="runs/2"))
    assert isinstance(other, Problem)
    assert other.code == "already_exists"


def test_ids_differ_for_other_bases_and_paths_and_for_tasks() -> None:
    ids = {directory_job_id(b"/a", b"b/c"), directory_job_id(b"/a/b", b"c"), task_job_id("b/c")}
    assert len(ids) == 3
    assert directory_job_id(b"/a", b"\xff") == directory_job_id(b"/a", b"\xff")


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
    assert (event.file, event.change) == (A, 1)
    assert decided(told.stream, RetrySummaryFile(file="other")) == []
    problem = decided(told.stream, RetrySummaryFile(file="othr"))
    assert problem.code == "unknown_summary_file"
    assert "other" in problem.message


def test_the_first_annotation_of_a_task_begins_its_job() -> None:
    stream = nothing(task_job_id("s.1"))
    events = decided(stream, AnnotateSummaryJob(task=TASK, tag=3, remark="baseline"))
    assert [type(event) for event in events] == [SummaryJobFound, SummaryJobAnnotated]
    assert (events[1].change, events[1].tag, events[1].remark) == (1, 3, "baseline")
    problem = decided(nothing("elsewhere"), AnnotateSummaryJob(task=TASK, tag=3))
    assert problem.code == "unknown_summary"
    assert task_job_id("s.1") in problem.message


def test_the_job_of_a_task_that_nobody_has_annotated_is_loaded() -> None:
    """S5: its stream begins; one that has begun stays as it is."""
    stream = nothing(task_job_id("s.1"))
    (event,) = decided(stream, CacheTrainJob(task=TASK))
    assert (type(event), event.job.task) == (SummaryJobFound, TASK)
    assert decided(nothing("elsewhere"), CacheTrainJob(task=TASK)).code == "unknown_summary"
    assert decided(found().stream, CacheTrainJob()) == []
    assert decided(found().stream, CacheTrainJob(task=TASK)).code == "unknown_summary"


def test_an_annotation_keeps_what_it_does_not_name() -> None:
    """S22."""
    told = found()
    told.tell(SummaryJobAnnotated(command_id="c-2", change=1, tag=3, remark="baseline"))
    (event,) = decided(told.stream, AnnotateSummaryJob(tag=0))
    assert (event.change, event.tag, event.remark) == (2, 0, "baseline")
    assert decided(told.stream, AnnotateSummaryJob(tag=3)) == []
    other = AnnotateSummaryJob(task=SummarizedTask(stream="s", task="s.2"), tag=1)
    assert decided(told.stream, other).code == "unknown_summary"


@pytest.mark.parametrize(("tag", "remark"), [(11, None), (-1, None), (None, "x" * 129), (True, None)])
def test_a_tag_over_10_and_a_remark_over_128_characters_are_refused(tag: Any, remark: Any) -> None:
    """S22."""
    with pytest.raises(ValueError, match=r"tag|remark"):
        AnnotateSummaryJob(tag=tag, remark=remark)


def test_a_job_is_deleted_once_and_restored_once() -> None:
    """S13."""
    told = found()
    (deleted,) = decided(told.stream, DeleteSummaryJob(reason="wrong"))
    assert (type(deleted), deleted.reason) == (SummaryJobDeleted, "wrong")
    assert decided(told.stream, RestoreSummaryJob()) == []
    told.tell(deleted)
    assert decided(told.stream, DeleteSummaryJob()) == []
    assert decided(told.stream, DeleteSummaryJob(purge=True))[0].purge
    (restored,) = decided(told.stream, RestoreSummaryJob())
    assert restored.change == 2
