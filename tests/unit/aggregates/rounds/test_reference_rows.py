"""What jobs of Sedna do, or fail to do: stages, reports, definitions, restarts, backoff."""

from typing import Any

import pytest

from tests.unit.aggregates.rounds.given import APPLIED, JOB, JobLog, digest, job_body
from trackside.aggregates.rounds.messages import RoundEnded, RoundStarted, StageState
from trackside.contracts.commands import CommandRefused
from trackside.contracts.fleet import WRITE_MANIFEST
from trackside.contracts.tasks import AttemptEnded, TaskSubmitted
from trackside.domain.retries import backoff_ms
from trackside.domain.streams import dump, load, pack
from trackside.domain.task import Task


@pytest.fixture
def log() -> JobLog:
    return JobLog(next_accuracy=lambda number: 0.5 + number / 10)


def stage_task(log: JobLog, task_type: str) -> Task:
    """Lets workers work until a task of a type waits; returns it."""
    for _ in range(20):
        open_tasks = [task for task in log.tasks() if task.task_type != "serve"]
        if found := [task for task in open_tasks if task.task_type == task_type]:
            return found[0]
        log.do(open_tasks[0])
    raise AssertionError(f"no task of type {task_type}")


def test_a_stage_that_fails_leads_back_to_waiting_for_training(log: JobLog) -> None:
    """I2: after each failed stage, and never to the end of the job."""
    log.create()
    for number, task_type in enumerate(("train", "evaluate"), 1):
        log.append(10)
        log.wait(60)
        log.end(stage_task(log, task_type), error="ValueError")
        ended = log.of(RoundEnded)[-1]
        assert (ended.number, ended.status, ended.deployed) == (number, "failed", False)
        assert (log.job.stage, log.job.stage_state) == ("train", StageState.WAITING)


def test_a_task_that_is_accepted_makes_its_stage_run(log: JobLog) -> None:
    """I3: Sedna documents the status `running`, and refuses it."""
    log.create()
    log.append(10)
    task = stage_task(log, "train")
    states = [log.job.stage_state]
    log.place(task)
    assert [*states, log.job.stage_state] == [StageState.STARTING, StageState.RUNNING]


@pytest.mark.parametrize("wrong", [{"task_id": f"{JOB}.r1.train.2"}, {"attempt": 2}, {"incarnation": "i-9"}])
def test_a_report_that_names_another_worker_or_task_has_no_effect(log: JobLog, wrong: Any) -> None:
    """I4: in Sedna a report of an unknown job is dropped without a word, here it is in the log."""
    log.create()
    log.append(10)
    token = log.place(stage_task(log, "train"))
    report = AttemptEnded.model_validate_json(
        AttemptEnded.model_validate({**token, "end": "finished"}).model_copy(update=wrong).model_dump_json()
    )
    assert log.tell(report, role="worker") != APPLIED
    assert log.job.stage_state is StageState.RUNNING


def test_a_job_is_created_once_and_a_bad_definition_creates_none(log: JobLog) -> None:
    """I5: Sedna replaces a job by its second definition, and one with a bad first one never starts."""
    kind = "trackside.create-incremental-job.v1"
    (refused,) = [
        each for each in log.command(JOB, kind, job_body(model="none")) if isinstance(each, CommandRefused)
    ]
    assert refused.code == "unknown_model"
    log.create()
    other = job_body(train={"task_type": "train", "parameters": {"epochs": 9}})
    assert any(isinstance(each, CommandRefused) for each in log.command(JOB, kind, other))
    assert log.job.spec.train.parameters == {}


def test_what_sedna_has_but_its_triggers_has_a_default(log: JobLog) -> None:
    """I6: split, evaluation with another model, update of what is live, and hard examples."""
    service = {"name": "api", "task_type": "serve", "hard_examples": {"miner": "Random"}}
    log.create(
        train={"task_type": "train"},
        eval={"task_type": "evaluate", "initial_model": {"model": "digits-model", "version": 1}},
        deploy={"services": [service], "copy_to": {"url": "/srv/live"}, "config": {"url": "/srv/config"}},
    )
    spec = log.job.spec
    assert (spec.dataset.eval_versions, spec.train.check_period_s, spec.deploy.check_period_s) == (5, 60, 0)
    assert log.job.initial_eval == log.job.live


def test_each_round_may_deploy_and_no_flag_remains(log: JobLog) -> None:
    """I23: in Sedna a node that only deploys does so once."""
    log.create(deploy={"services": [{"name": "api", "task_type": "serve"}]})
    log.work()
    for _ in range(4):
        log.append(10)
        log.work()
    assert [event.deployed for event in log.of(RoundEnded)] == [True] * 4
    assert log.job.live.version == 5


def test_an_evaluation_compares_the_trained_model_with_the_one_that_is_live(log: JobLog) -> None:
    """I24."""
    log.create()
    log.append(10)
    task = stage_task(log, "evaluate")
    assert task.inputs["trained"].sha256 == digest("round 1")
    assert task.inputs["deployed"].sha256 == digest("initial")
    assert task.inputs["samples"].uri == "/srv/out/data/eval/1/data.txt"


def test_a_job_continues_from_a_snapshot_where_it_was(log: JobLog) -> None:
    """I35 and I36: a restart of Sedna begins at round 0, and divides all samples again."""
    log.create()
    log.append(10)
    log.work()
    log.append(10)
    stage_task(log, "train")
    before = dump(log.stream)
    log.streams.by_id[JOB] = load(pack(log.stream), log.streams.aggregates)
    assert dump(log.stream) == before
    log.work()
    assert [(event.number, event.train) for event in log.of(RoundStarted)] == [(1, (0, 10)), (2, (10, 20))]


def test_what_fails_waits_10_s_doubled_to_360_s() -> None:
    """I42."""
    assert [backoff_ms(failures) // 1_000 for failures in range(8)] == [0, 10, 20, 40, 80, 160, 320, 360]
    assert backoff_ms(10_000) == 360_000


def test_each_stage_has_its_own_queue(log: JobLog) -> None:
    """I42: each of its stages may run on another node."""
    log.create(
        train={"task_type": "train", "needs": {"queue": "gpus"}, "check_period_s": 0},
        eval={"task_type": "evaluate", "needs": {"queue": "cpus"}, "check_period_s": 0},
    )
    log.append(10)
    log.work()
    tasks = [each for each in log.of(TaskSubmitted) if each.task_id.startswith(f"{JOB}.")]
    queues = [(each.task_type, each.needs.queue) for each in tasks]
    assert queues == [
        (WRITE_MANIFEST, "gpus"),
        ("train", "gpus"),
        (WRITE_MANIFEST, "cpus"),
        ("evaluate", "cpus"),
    ]
