"""Rounds of a job from their first samples to a deployment, in a log that is folded as it is written."""

import pytest

from tests.unit.aggregates.rounds.given import JOB, MODEL, JobLog, event_names, submitted
from trackside.aggregates.rounds.deploy_messages import DeployDecided, ModelDeployed
from trackside.aggregates.rounds.messages import (
    JobStatus,
    RoundEnded,
    RoundStarted,
    SampleManifestWritten,
    StageState,
)
from trackside.contracts.commands import CommandRefused


@pytest.fixture
def log() -> JobLog:
    return JobLog()


def test_a_round_trains_evaluates_and_deploys_a_better_model(log: JobLog) -> None:
    log.next_accuracy = lambda number: 0.9
    log.create()
    log.append(100)
    log.work()
    assert [event.lines for event in log.of(SampleManifestWritten)] == [80, 20]
    (started,) = log.of(RoundStarted)
    assert (started.number, started.base.version) == (1, 1)
    assert (started.train, started.evaluation) == ((0, 100), [(0, 100)])
    (decided,) = log.of(DeployDecided)
    assert decided.deploy
    assert decided.deltas == {"accuracy_delta": pytest.approx(0.4)}
    assert log.job.live.version == 2
    assert [event.status for event in log.of(RoundEnded)] == ["completed"]
    assert log.streams.by_id[MODEL].root.holder("production") == 2
    assert (log.job.stage, log.job.stage_state) == ("train", StageState.WAITING)
    assert log.job.pool.training == 0


def test_a_worse_model_is_not_deployed(log: JobLog) -> None:
    log.create()
    log.append(10)
    log.work()
    (decided,) = log.of(DeployDecided)
    assert not decided.deploy
    assert decided.reason == "accuracy_delta > 0.1: it is 0"
    assert not log.of(ModelDeployed)
    (ended,) = log.of(RoundEnded)
    assert (ended.status, ended.deployed) == ("completed", False)


def test_the_events_of_a_round_with_services_come_in_their_order(log: JobLog) -> None:
    log.next_accuracy = lambda number: 0.9
    log.create(
        deploy={
            "services": [{"name": "api", "task_type": "serve", "replicas": 2}],
            "copy_to": {"url": "/srv/live.safetensors"},
        }
    )
    assert submitted(log.written)[-2:] == ["serve.api.1.1", "serve.api.2.1"]
    log.work()
    log.append(10)
    before = len(log.written) - 3
    log.work()
    assert [name for name in event_names(log.written[before:]) if not name.startswith("Command")] == [
        "SamplesAssigned",
        "TriggerEvaluated",
        "TaskSubmitted",
        "SampleManifestWritten",
        "RoundStarted",
        "TaskSubmitted",
        "ModelTrained",
        "ModelVersionAdded",
        "StageEnded",
        "TriggerEvaluated",
        "TaskSubmitted",
        "SampleManifestWritten",
        "TaskSubmitted",
        "StageEnded",
        "DeployDecided",
        "ModelUpdatePublished",
        "TaskSubmitted",
        "ModelCopied",
        "InstructionGiven",
        "InstructionGiven",
        "ModelUpdateConfirmed",
        "ModelUpdateConfirmed",
        "ModelDeployed",
        "StageEnded",
        "RoundEnded",
        "ModelStageSet",
        "TriggerEvaluated",
        "StageBlocked",
    ]


def test_samples_of_a_failed_round_go_back_and_are_trained_with_once(log: JobLog) -> None:
    """I22: in Sedna they are gone."""
    log.create()
    log.append(10)
    (task,) = log.tasks()
    log.work(1)
    (task,) = log.tasks()
    log.append(5)
    log.end(task, error="ValueError")
    (ended,) = log.of(RoundEnded)
    assert (ended.status, ended.released, ended.reason) == ("failed", (0, 10), "value_error")
    assert log.job.pool.training == 12
    log.wait(60)
    log.work()
    assert [event.train for event in log.of(RoundStarted)] == [(0, 10), (0, 15)]
    assert log.job.last_trained is not None
    assert log.job.pool.training == 0


def test_a_job_without_triggers_and_samples_waits(log: JobLog) -> None:
    """A job without conditions spins without pause in Sedna."""
    log.create()
    log.append(10)
    log.work()
    rounds = log.job.rounds
    written = log.wait(86_400)
    assert log.job.rounds == rounds
    assert event_names(written) == ["TriggerEvaluated", "StageBlocked"] or not written
    assert log.job.blocked == "no_samples"
    assert not log.wait(86_400)


def test_a_rollback_makes_an_earlier_version_live(log: JobLog) -> None:
    log.next_accuracy = lambda number: 0.9
    log.create(deploy={"services": [{"name": "api", "task_type": "serve"}]})
    log.append(10)
    log.work()
    assert log.job.live.version == 2
    log.command(JOB, "trackside.rollback-model.v1", {"version": 1})
    log.work()
    assert log.job.live.version == 1
    (refused,) = [
        event
        for event in log.command(JOB, "trackside.rollback-model.v1", {"version": 7})
        if isinstance(event, CommandRefused)
    ]
    assert refused.code == "never_live"
    assert refused.message.endswith("those were: digits-model@1, digits-model@2")


def test_a_deleted_job_ends_its_services_and_keeps_its_id(log: JobLog) -> None:
    """I37."""
    log.create(deploy={"services": [{"name": "api", "task_type": "serve"}]})
    log.work()
    log.command(JOB, "trackside.delete-incremental-job.v1", {})
    log.work()
    assert log.job.status is JobStatus.DELETED
    assert log.stream.over
    assert not log.tasks()
