"""Rounds of a job from their first samples to a deployment, in a log that is folded as it is written."""

from typing import Any

import pytest

from tests.unit.aggregates.rounds import given
from trackside.aggregates.rounds.job.deploy_messages import DeployDecided
from trackside.aggregates.rounds.messages import RoundEnded, RoundStarted, SampleManifestWritten, StageState
from trackside.contracts.fleet.fleet import WRITE_MANIFEST
from trackside.contracts.tasks.tasks import AttemptEnded, TaskSubmitted
from trackside.domain.folding.streams import dump, load, pack
from trackside.domain.outcome import Outcome


def test_a_round_trains_evaluates_and_deploys_a_better_model(log: given.JobLog) -> None:
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
    assert (decided.deltas, log.job.live.version) == ({"accuracy_delta": pytest.approx(0.4)}, 2)
    assert [event.status for event in log.of(RoundEnded)] == ["completed"]
    assert log.streams.by_id[given.MODEL].root.holder("production") == 2
    assert (log.job.stage, log.job.stage_state, log.job.pool.training) == ("train", StageState.WAITING, 0)


def test_the_events_of_a_round_with_services_come_in_their_order(log: given.JobLog) -> None:
    log.next_accuracy = lambda number: 0.9
    log.create(
        deploy={
            "services": [{"name": "api", "task_type": "serve", "replicas": 2}],
            "copy_to": {"url": "/srv/live.safetensors"},
        }
    )
    assert given.submitted(log.written)[-2:] == ["serve.api.1.1", "serve.api.2.1"]
    log.work()
    log.append(10)
    before = len(log.written) - 3
    log.work()
    names = [name for name in given.event_names(log.written[before:]) if not name.startswith("Command")]
    assert " ".join(names) == (
        "SamplesAssigned TriggerEvaluated TaskSubmitted SampleManifestWritten RoundStarted TaskSubmitted "
        "ModelTrained ModelVersionAdded StageEnded TriggerEvaluated TaskSubmitted SampleManifestWritten "
        "TaskSubmitted StageEnded DeployDecided ModelUpdatePublished TaskSubmitted ModelCopied "
        "InstructionGiven InstructionGiven ModelUpdateConfirmed ModelUpdateConfirmed ModelDeployed "
        "StageEnded RoundEnded ModelStageSet TriggerEvaluated StageBlocked"
    )


def test_samples_of_a_failed_round_go_back_and_are_trained_with_once(log: given.JobLog) -> None:
    """I22: in Sedna they are gone."""
    log.create()
    log.append(10)
    task = log.stage_task("train")
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


def test_a_job_without_triggers_and_samples_waits(log: given.JobLog) -> None:
    """A job without conditions spins without pause in Sedna."""
    log.first_round()
    rounds = log.job.rounds
    written = log.wait(86_400)
    assert log.job.rounds == rounds
    assert given.event_names(written) == ["TriggerEvaluated", "StageBlocked"] or not written
    assert log.job.blocked == "no_samples"
    assert not log.wait(86_400)


def test_a_stage_that_fails_leads_back_to_waiting_for_training(log: given.JobLog) -> None:
    """I2: after each failed stage, and never to the end of the job."""
    log.create()
    for number, task_type in enumerate(("train", "evaluate"), 1):
        log.append(10)
        log.wait(60)
        log.end(log.stage_task(task_type), error="ValueError")
        ended = log.of(RoundEnded)[-1]
        assert (ended.number, ended.status, ended.deployed) == (number, "failed", False)
        assert (log.job.stage, log.job.stage_state) == ("train", StageState.WAITING)


def test_a_task_that_is_accepted_makes_its_stage_run_and_both_models_are_evaluated(log: given.JobLog) -> None:
    """I3: Sedna documents the status `running`, and refuses it."""
    log.create()
    log.append(10)
    task = log.stage_task("train")
    states = [log.job.stage_state]
    log.place(task)
    assert [*states, log.job.stage_state] == [StageState.STARTING, StageState.RUNNING]
    task = log.stage_task("evaluate")
    assert task.inputs["trained"].sha256 == given.digest("round 1")
    assert task.inputs["deployed"].sha256 == given.digest("initial")
    assert task.inputs["samples"].uri == "/srv/out/data/eval/1/data.txt"


@pytest.mark.parametrize(
    "wrong", [{"task_id": f"{given.JOB}.r1.train.2"}, {"attempt": 2}, {"incarnation": "i-9"}]
)
def test_a_report_that_names_another_worker_or_task_has_no_effect(log: given.JobLog, wrong: Any) -> None:
    """I4: in Sedna a report of an unknown job is dropped without a word, here it is in the log."""
    log.create()
    log.append(10)
    token = log.place(log.stage_task("train"))
    report = AttemptEnded.model_validate({**token, "end": "finished", **wrong})
    assert log.tell(report, role="worker") != [Outcome.APPLIED]
    assert log.job.stage_state is StageState.RUNNING


def test_a_job_is_created_once_and_a_bad_definition_creates_none(log: given.JobLog) -> None:
    """I5: Sedna replaces a job by its second definition, and one with a bad first one never starts."""
    assert log.refused(given.CREATE, given.job_body(model="none")) == "unknown_model"
    log.create()
    other = given.job_body(train={"task_type": "train", "parameters": {"epochs": 9}})
    assert (log.refused(given.CREATE, other), log.job.spec.train.parameters) == ("already_exists", {})


def test_what_sedna_has_but_its_triggers_has_a_default(log: given.JobLog) -> None:
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


def test_a_job_continues_from_a_snapshot_where_it_was(log: given.JobLog) -> None:
    """I35 and I36: a restart of Sedna begins at round 0, and divides all samples again."""
    log.first_round()
    log.append(10)
    log.stage_task("train")
    before = dump(log.stream)
    log.streams.by_id[given.JOB] = load(pack(log.stream), log.streams.aggregates)
    assert dump(log.stream) == before
    log.work()
    assert [(event.number, event.train) for event in log.of(RoundStarted)] == [(1, (0, 10)), (2, (10, 20))]


def test_each_round_may_deploy_and_no_flag_remains(log: given.JobLog) -> None:
    """I23: in Sedna a node that only deploys does so once."""
    log.create(deploy={"services": [{"name": "api", "task_type": "serve"}]})
    log.work()
    for _ in range(4):
        log.append(10)
        log.work()
    assert ([event.deployed for event in log.of(RoundEnded)], log.job.live.version) == ([True] * 4, 5)


def test_each_stage_has_its_own_queue(log: given.JobLog) -> None:
    """I42: each of its stages may run on another node."""
    log.create(
        train={"task_type": "train", "needs": {"queue": "gpus"}, "check_period_s": 0},
        eval={"task_type": "evaluate", "needs": {"queue": "cpus"}, "check_period_s": 0},
    )
    log.next_round()
    tasks = [each for each in log.of(TaskSubmitted) if each.task_id.startswith(f"{given.JOB}.")]
    assert [each.task_type for each in tasks] == [WRITE_MANIFEST, "train", WRITE_MANIFEST, "evaluate"]
    assert [each.needs.queue for each in tasks] == ["gpus", "gpus", "cpus", "cpus"]
