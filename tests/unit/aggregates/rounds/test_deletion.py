"""I37: a deleted job removes its folder below `config` by a task, however that ends."""

from typing import Any

import pytest

from tests.unit.aggregates.rounds.given import JOB, JobLog, event_names, submitted
from trackside.aggregates.rounds.job.deploy_messages import ConfigRemovalEnded
from trackside.aggregates.rounds.messages import IncrementalJobDeleted
from trackside.aggregates.rounds.stages.deletion import REMOVAL_MS, next_due_ms
from trackside.contracts.envelope.message import Event
from trackside.contracts.streams.commands import CommandAccepted
from trackside.contracts.tasks.tasks import AttemptEnd, TaskStopRequested
from trackside.domain.outcome import Outcome
from trackside.domain.tasks.task import Task

HOT: dict[str, Any] = {"config": {"url": "/srv/hot/", "credential": "minio"}, "tries": 2}


def deleted(log: JobLog, **deploy: Any) -> list[Event]:
    log.first_round(deploy=deploy or HOT)
    assert log.job.live.version == 2
    return delete(log)


def delete(log: JobLog) -> list[Event]:
    accepted, *written = log.command(JOB, "trackside.delete-incremental-job.v1", {})
    assert isinstance(accepted, CommandAccepted)
    return written


def removal(log: JobLog) -> Task:
    (task,) = log.tasks()
    assert task.parameters["target"] == "removal"
    return task


def test_a_deleted_job_removes_its_folder_and_then_is_over(log: JobLog) -> None:
    written = deleted(log)
    assert event_names(written) == ["IncrementalJobDeleted", "TaskSubmitted"]
    task, at_ms = removal(log), log.now_ms
    assert task.task_id == f"{JOB}.delete.folder.1" and task.needs.credentials == ["minio"]
    asked = {"target": "removal", "url": "/srv/hot/", "job": JOB, "time_ms": at_ms, "credential": "minio"}
    assert task.parameters == asked
    assert not log.stream.over
    log.work()
    assert log.of(ConfigRemovalEnded) == [ConfigRemovalEnded(url=f"/srv/hot/{JOB}", removed=True, tries=1)]
    assert log.stream.over and not log.job.blocked and next_due_ms(log.job) is None
    assert log.job.has_settled(task.task_id)


@pytest.mark.parametrize("deploy", [{"copy_to": {"url": "/srv/live"}}, {"config": None, "tries": 1}, None])
def test_a_job_without_config_or_that_has_never_deployed_removes_nothing(log: JobLog, deploy: Any) -> None:
    """Outputs, the file of `copy_to`, and the bytes of its models stay."""
    if deploy is None:
        log.create(deploy=HOT)
    written = delete(log) if deploy is None else deleted(log, **deploy)
    assert event_names(written) == ["IncrementalJobDeleted"]
    assert log.stream.over


def test_a_removal_that_fails_is_tried_again_and_then_given_up_with_the_reason(log: JobLog) -> None:
    deleted(log)
    assert not submitted(log.end(removal(log), error="unreachable"))
    assert submitted(log.wait(10)) == ["delete.folder.2"]
    log.end(removal(log), error="unreachable")
    (ended,) = log.of(ConfigRemovalEnded)
    assert (ended.removed, ended.tries, ended.due_ms, log.job.blocked) == (False, 2, None, "config_stays")
    assert log.job.blocked_message == f"/srv/hot/{JOB} stays: it was unreachable"
    assert log.stream.over and next_due_ms(log.job) is None
    other = JobLog()
    deleted(other)
    other.end(removal(other), {"url": f"/srv/hot/{JOB}", "files": 2, "others": 3})
    assert other.job.blocked_message == f"/srv/hot/{JOB} stays: 3 files in it are not those of the job"
    assert other.stream.over


def test_a_store_that_does_not_answer_is_given_up_in_time(log: JobLog) -> None:
    deleted(log)
    task = removal(log)
    log.place(task)
    written = log.wait(REMOVAL_MS / 1000)
    assert event_names(written) == ["ConfigRemovalEnded", "TaskStopRequested"]
    assert log.of(TaskStopRequested)[-1].task_id == task.task_id
    assert "within 10 minutes" in log.job.blocked_message
    assert not log.stream.over  # the worker has the task yet
    assert not log.end(task, how=AttemptEnd.CANCELLED)
    assert log.stream.over


def test_a_copy_that_goes_on_ends_before_the_folder_is_removed(log: JobLog) -> None:
    log.create(deploy=HOT)
    log.append(10)
    while not (copies := [task for task in log.tasks() if task.parameters.get("target") == "config"]):
        assert log.do(log.tasks()[0])
    log.place(copies[0])
    assert event_names(delete(log)) == ["IncrementalJobDeleted", "TaskStopRequested"]
    assert submitted(log.end(copies[0], how=AttemptEnd.CANCELLED)) == ["delete.folder.1"]


def test_an_end_that_nothing_has_led_to_counts_for_nothing(log: JobLog) -> None:
    ended = ConfigRemovalEnded(url=f"/srv/hot/{JOB}", removed=True, tries=1)
    late = ended.model_copy(update={"removed": False, "due_ms": log.now_ms})
    log.first_round(deploy=HOT)
    assert log.tell(ended, role="dispatcher") == [Outcome.OVERTAKEN]
    log.tell(IncrementalJobDeleted(command_id="c", change=log.job.changes + 1), role="dispatcher")
    log.settle()
    for event in (ended, late):
        assert log.tell(event, role="dispatcher") == [Outcome.OVERTAKEN]
    log.work()
    assert log.tell(ended, role="dispatcher") == [Outcome.DUPLICATE]
