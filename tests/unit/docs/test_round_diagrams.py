"""The diagrams of jobs of incremental learning, their stages and deployments, have what the fold permits."""

from collections.abc import Iterator
from functools import cache

import pytest

from tests.unit.aggregates.rounds.given import APPLIED, JOB, JobLog, job_body
from tests.unit.aggregates.rounds.test_deployments import ALWAYS, deploying
from tests.unit.aggregates.rounds.test_random_jobs import live_through
from tests.unit.docs.test_state_diagrams import START, Transition, drawn
from tests.unit.domain.given import adopted, assigned, ended
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.rounds.job.deploy_messages import (
    ModelUpdateConfirmed,
    ModelUpdateFailed,
    ModelUpdatePublished,
)
from trackside.aggregates.rounds.messages import JobStatus, StageState
from trackside.aggregates.rounds.state import IncrementalJob
from trackside.contracts.streams.children import ChildRequested
from trackside.contracts.tasks.tasks import AttemptEnd, TaskSubmitted
from trackside.domain.folding.streams import Streams
from trackside.domain.tasks.task import Task

RANDOM_JOBS = 40
DEPLOYMENT = {"IDLE", "OPEN", "CONFIRMED", "GIVEN_UP"}


def deployment(job: IncrementalJob) -> str:
    if job.update is None:
        return "IDLE"
    if job.update.failed:
        return "GIVEN_UP"
    return "OPEN" if job.update.open else "CONFIRMED"


@cache
def permitted() -> dict[str, set[Transition]]:
    """Returns each change of the states of jobs, by subject, in random logs and in directed ones."""
    found: dict[str, set[Transition]] = {"Rounds": set(), "Stage": set(), "Deployment": set()}
    for log in logs():
        streams, before = Streams(AGGREGATES), (START, START, START)
        for record in log.records:
            job = streams.fold(record)[0].root
            if not isinstance(job, IncrementalJob):
                continue
            after = (job.status.value, job.stage_state.value, deployment(job))
            for subject, was, now in zip(found, before, after, strict=True):
                if was != now:
                    found[subject].add((was, type(record.message).__name__, now))
            before = after
    return found


def logs() -> Iterator[JobLog]:
    for seed in range(RANDOM_JOBS):
        yield live_through(seed, 80).log
    for paused in (False, True):
        log = JobLog()
        log.create()
        if paused:
            log.command(JOB, "trackside.pause-incremental-job.v1", {})
        log.command(JOB, "trackside.delete-incremental-job.v1", {})
        yield log
    yield refused()
    yield adopted_at_once()
    yield with_child()
    yield without_targets()
    yield rolled_back_twice()
    yield given_up_without_targets()
    yield joined()


def with_a_task() -> tuple[JobLog, Task]:
    log = JobLog()
    log.create()
    log.append(10)
    log.work(1)
    (task,) = log.tasks()
    return log, task


def refused() -> JobLog:
    """A task that no worker can run."""
    log, task = with_a_task()
    end = ended(AttemptEnd.REFUSED, placement=0).model_copy(update={"task_id": task.task_id})
    assert log.tell(end, role="scheduler") == APPLIED
    log.settle()
    return log


def adopted_at_once() -> JobLog:
    """A task whose worker has died after its start, before the log had the acceptance."""
    log, task = with_a_task()
    for event in (assigned(), adopted()):
        assert log.tell(event.model_copy(update={"task_id": task.task_id})) == APPLIED
    return log


def with_child() -> JobLog:
    space = {"lr": {"type": "uniform", "low": 0, "high": 1}}
    search = {"task_type": "train", "space": space, "max_trials": 1}
    log = JobLog()
    log.create(train={"kind": "search", "spec": search, "check_period_s": 0})
    log.append(10)
    log.work()
    assert log.of(ChildRequested)
    return log


def redefine(log: JobLog, **deploy: object) -> None:
    log.command(JOB, "trackside.update-incremental-job.v1", {"job": job_body(deploy={**ALWAYS, **deploy})})


def without_targets() -> JobLog:
    log = JobLog()
    deploying(log)
    redefine(log, services=[])
    return log


def confirm(log: JobLog) -> None:
    """Writes that the only target has confirmed the update, and nothing that follows from it."""
    update = log.job.update
    assert update is not None
    (target,) = update.open
    sha256 = update.model.artifact.sha256
    confirmed = ModelUpdateConfirmed(update=update.number, target=target, sha256=sha256)
    assert log.tell(confirmed, role="dispatcher") == APPLIED


def rolled_back_twice() -> JobLog:
    log = JobLog()
    deploying(log)
    log.work()
    log.command(JOB, "trackside.rollback-model.v1", {"version": 1})
    assert log.of(ModelUpdatePublished)[-1].cause == "rollback"
    confirm(log)
    log.command(JOB, "trackside.rollback-model.v1", {"version": 2})
    return log


def given_up_without_targets() -> JobLog:
    log = JobLog()
    deploying(log, tries=1)
    failed = ModelUpdateFailed(update=1, target="serve.api.1", failure=1, message="no memory")
    assert log.tell(failed, role="dispatcher") == APPLIED
    redefine(log, services=[])
    return log


def joined() -> JobLog:
    """A service that begins when all others have confirmed."""
    log = JobLog()
    deploying(log)
    service = {"name": "api", "task_type": "serve"}
    edge = {"name": "edge", "task_type": "serve"}
    redefine(log, services=[service, edge])
    assert log.job.update is not None
    begun = [event for event in log.written if isinstance(event, TaskSubmitted)][-1]
    assert begun.task_id == f"{JOB}.serve.edge.1.1"
    last = log.records.pop()  # the service begins a little later
    while last.message is not begun:
        last = log.records.pop()
    records, log.records, log.streams = log.records, [], Streams(AGGREGATES)
    for record in records:
        log.records.append(record)
        log.streams.fold(record)
    confirm(log)
    assert log.tell(begun, role="dispatcher") == APPLIED
    return log


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("subject", "names"),
    [
        ("Rounds", {status.value for status in JobStatus}),
        ("Stage", {state.value for state in StageState}),
        ("Deployment", DEPLOYMENT),
    ],
)
def test_a_diagram_of_jobs_has_every_state_and_transition_of_the_fold(subject: str, names: set[str]) -> None:
    assert drawn(subject) == permitted()[subject]
    assert {state for before, _, after in drawn(subject) for state in (before, after)} - {START} == names
