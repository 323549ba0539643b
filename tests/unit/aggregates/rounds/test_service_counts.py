"""I40: what inference services count is reported by window; none is lost or counted twice when one ends."""

from typing import Any

import pytest

from tests.unit.aggregates.rounds.given import APPLIED, JOB, JobLog, event_names, stream_of
from trackside.aggregates.rounds.job.deploy_messages import HardExamplesReported
from trackside.aggregates.rounds.state import ServiceState
from trackside.contracts.tasks.instructions import TaskReady
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded
from trackside.domain.tasks.task import Task

SERVICES: dict[str, Any] = {"services": [{"name": "api", "task_type": "serve"}]}


@pytest.fixture
def log() -> JobLog:
    made = JobLog()
    made.create(deploy=SERVICES)
    made.work()
    task = serving(made)
    made.ready(task, **task.attempts[-1].ready | {"inferences": 3, "hard": 1})
    assert [(each.inferences, each.hard) for each in made.of(HardExamplesReported)] == [(3, 1)]
    return made


def serving(log: JobLog) -> Task:
    return next(task for task in log.tasks() if task.task_type == "serve")


def end_with_counts(log: JobLog, end: AttemptEnd, inferences: int, hard: int) -> None:
    """Ends a service right after its last report: no dispatcher looks at the log between the two."""
    task = serving(log)
    token, attempt = log.place(task), task.attempts[-1]
    detail = attempt.ready | {"inferences": inferences, "hard": hard}
    said = TaskReady(**token, number=attempt.ready_number + 1, detail=detail)
    ended = AttemptEnded.model_validate({**token, "end": end})
    assert log.tell(said, ended, role="worker", stream=stream_of(task)) == APPLIED * 2


def state(log: JobLog) -> ServiceState:
    return log.job.services["serve.api.1"]


@pytest.mark.parametrize("end", [AttemptEnd.FINISHED, AttemptEnd.FAILED])
def test_the_last_window_of_a_service_is_reported_once_before_the_next_begins(log: JobLog, end: Any) -> None:
    end_with_counts(log, end, 10, 2)
    names = event_names(log.settle())
    if "TaskSubmitted" in names:
        assert names.index("HardExamplesReported") < names.index("TaskSubmitted")
    log.wait(60)
    log.work()
    assert [(each.inferences, each.hard) for each in log.of(HardExamplesReported)] == [(3, 1), (7, 1)]
    counts = state(log).counts
    assert (counts.windows, counts.inferences, counts.hard) == (2, 10, 2)
    assert state(log).left is None and state(log).running, "the service begins again"
    task = serving(log)
    log.ready(task, **task.attempts[-1].ready | {"inferences": 4, "hard": 0})
    assert counts.inferences == 14, "the next process counts from zero"


def test_a_service_that_ends_without_new_counts_begins_again_at_once(log: JobLog) -> None:
    end_with_counts(log, AttemptEnd.FINISHED, 3, 1)
    assert state(log).left is None
    log.wait(60)
    log.work()
    assert state(log).running and len(log.of(HardExamplesReported)) == 1


def test_the_last_window_of_a_job_that_was_deleted_is_reported_too(log: JobLog) -> None:
    log.command(JOB, "trackside.delete-incremental-job.v1", {})
    end_with_counts(log, AttemptEnd.CANCELLED, 5, 1)
    log.work()
    assert (state(log).counts.inferences, state(log).running) == (5, False)
    assert log.job.over
