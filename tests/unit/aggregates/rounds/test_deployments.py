"""Deployments: the decision, its gate, the targets, and what becomes of an update that fails."""

from typing import Any

import pytest

from tests.unit.aggregates.rounds import given
from trackside.aggregates.rounds.job import deploy_messages
from trackside.aggregates.rounds.messages import RoundEnded
from trackside.contracts.tasks.instructions import InstructionGiven
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.domain.outcome import Outcome
from trackside.domain.tasks.task import Task

ALWAYS: dict[str, Any] = {"services": [{"name": "api", "task_type": "serve"}], "confirm_s": 60, "tries": 2}


def deploying(log: given.JobLog, **deploy: Any) -> Task:
    log.create(deploy={**ALWAYS, **deploy})
    log.work()
    log.append(10)
    while not log.of(deploy_messages.ModelUpdatePublished):
        open_tasks = [task for task in log.tasks() if task.task_type != "serve"]
        assert log.do(open_tasks[0])
    (service,) = [task for task in log.tasks() if task.task_type == "serve"]
    return service


def test_a_model_is_live_once_each_target_has_confirmed_its_digest_and_no_other(log: given.JobLog) -> None:
    service = deploying(log)
    assert log.job.live.version == 1
    log.acknowledge(service, sha256=given.digest("other"))
    (failure,) = log.of(deploy_messages.ModelUpdateFailed)
    assert failure.message.startswith("it has loaded bytes with the digest")
    assert not log.of(deploy_messages.ModelDeployed)
    log.wait(10)
    log.acknowledge(service)
    assert (log.job.live.version, [event.deployed for event in log.of(RoundEnded)]) == (2, [True])


def test_a_confirmation_that_was_not_asked_for_changes_nothing(log: given.JobLog) -> None:
    deploying(log)
    asked = {"update": 1, "target": "serve.api.1", "sha256": given.digest("round 1")}
    for changed in (
        {"target": "serve.api.2"},
        {"update": 2},
        {"target": "copy"},
        {"sha256": given.digest("other")},
    ):
        confirmed = deploy_messages.ModelUpdateConfirmed.model_validate({**asked, **changed})
        assert log.tell(confirmed, role="dispatcher") == [Outcome.OVERTAKEN]


def test_a_target_that_fails_too_often_fails_the_round_and_gets_the_model_before(log: given.JobLog) -> None:
    """I28: in Sedna the version counts as loaded before it is, so a failed load is never tried again."""
    service = deploying(log)
    log.acknowledge(service, ok=False, message="no space left")
    assert [event.failure for event in log.of(deploy_messages.ModelUpdateFailed)] == [1]
    assert given.event_names(log.wait(10)) == ["InstructionGiven"]
    log.acknowledge(service, ok=False)
    (ended,) = log.of(RoundEnded)
    assert (ended.status, ended.stage, ended.reason) == ("failed", "deploy", "not_confirmed")
    assert [event.cause for event in log.of(deploy_messages.ModelUpdatePublished)] == ["round", "withdrawal"]
    log.acknowledge(service)
    assert log.job.live.version == 1
    assert log.job.update is None


def test_an_update_that_nobody_confirms_in_time_names_who_has_not(log: given.JobLog) -> None:
    deploying(log)
    log.wait(59)
    assert not log.of(deploy_messages.ModelUpdateTimedOut)
    log.wait(1)
    assert [event.targets for event in log.of(deploy_messages.ModelUpdateTimedOut)] == [["serve.api.1"]]
    assert [event.status for event in log.of(RoundEnded)] == ["failed"]


def test_a_round_waits_for_a_service_whose_worker_was_lost_and_counts_its_time_from_there(
    log: given.JobLog,
) -> None:
    service = deploying(log)
    log.end(service, how=AttemptEnd.LOST)
    log.wait(600)
    assert not log.of(deploy_messages.ModelUpdateTimedOut), "it waits to be started again"
    log.ready(service)
    log.wait(59)
    assert not log.of(deploy_messages.ModelUpdateTimedOut)
    log.wait(1)
    assert [event.targets for event in log.of(deploy_messages.ModelUpdateTimedOut)] == [["serve.api.1"]]


def test_a_round_fails_in_time_for_a_service_that_fails_by_itself(log: given.JobLog) -> None:
    service = deploying(log)
    log.end(service, error="Killed")
    log.wait(60)
    assert log.of(deploy_messages.ModelUpdateTimedOut)


def test_a_service_that_comes_later_gets_the_update_at_once(log: given.JobLog) -> None:
    service = deploying(log)
    log.end(service, error="Killed")
    log.wait(15)
    log.ready(service)
    assert service.instruction is not None
    assert service.instruction.body["update"] == 1
    log.acknowledge(service)
    assert log.job.live.version == 2


@pytest.mark.parametrize("how", ["approved", "rejected", "expired"])
def test_a_deployment_waits_for_a_person_until_its_time_limit(log: given.JobLog, how: str) -> None:
    log.first_round(deploy={"gate": {"timeout_s": 100}})
    assert log.job.round is not None and log.job.round.waits_for_approval
    if how == "approved":
        assert [log.refused(given.APPROVE, {"actor": "ada"}) for _ in range(2)] == ["", "no_open_gate"]
    elif how == "rejected":
        assert log.refused("trackside.reject-deploy.v1", {"reason": "no"}) == ""
    else:
        log.wait(99)
        assert not log.of(deploy_messages.DeployRejected)
        log.wait(1)
    assert [event.deployed for event in log.of(RoundEnded)] == [how == "approved"]
    assert log.job.live.version == 1 + (how == "approved")


def test_force_deploys_a_worse_model_without_a_gate(log: given.JobLog) -> None:
    log.first_round(deploy={"gate": {}, "trigger": {"type": "manual"}})
    assert log.refused(given.FIRE_DEPLOY, {"force": True}) == ""
    (decided,) = log.of(deploy_messages.DeployDecided)
    assert (decided.deploy, decided.reason, decided.approval) == (True, "forced by a command", False)
    assert log.job.live.version == 2


def test_a_command_stands_for_the_time_of_a_trigger_and_not_for_its_conditions(log: given.JobLog) -> None:
    condition = {"type": "condition", "metric": "accuracy", "operator": ">", "threshold": 0.8}
    log.first_round(deploy={"trigger": {"type": "all_of", "triggers": [{"type": "manual"}, condition]}})
    assert not log.of(deploy_messages.DeployDecided)
    assert log.refused(given.FIRE_DEPLOY) == ""
    assert [event.reason for event in log.of(deploy_messages.DeployDecided)] == ["accuracy > 0.8: it is 0.5"]


def test_a_rollback_begins_after_a_deployment_and_goes_on_until_each_target_has_it(log: given.JobLog) -> None:
    service = deploying(log)
    assert log.refused(given.ROLLBACK, {"version": 1}) == "update_in_progress"
    log.acknowledge(service)
    assert log.refused(given.ROLLBACK, {"version": 1}) == ""
    log.wait(100)
    assert log.job.live.version == 2
    assert log.of(deploy_messages.ModelUpdateTimedOut)
    log.acknowledge(service)
    assert log.job.live.version == 1
    (refused,) = log.refusals(given.ROLLBACK, {"version": 7})
    assert refused.code == "never_live"
    assert refused.message.endswith("those were: digits-model@1, digits-model@2")


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ({}, "the evaluation returned no metrics of the trained and of the deployed model"),
        ({"results": [{"accuracy": 1.0}]}, "the evaluation returned no metrics of the trained and of the"),
        ({"trained": {"accuracy": 1.0}}, "the evaluation returned no metrics of the deployed model"),
        ({"trained": {"accuracy": 1.0}, "deployed": {}}, "accuracy_delta > 0.1: "),
        ({"trained": {"accuracy": [1.0]}, "deployed": {"accuracy": [0.1]}}, "accuracy_delta is a list of 1"),
    ],
)
def test_what_can_not_be_compared_is_not_deployed(log: given.JobLog, result: Any, reason: str) -> None:
    """I14, I12: not two results, a missing metric, a bare list."""
    log.create()
    log.append(10)
    log.end(log.stage_task("evaluate"), result)
    (decided,) = log.of(deploy_messages.DeployDecided)
    assert not decided.deploy
    assert reason in decided.reason


def test_an_update_goes_to_targets_that_come_meanwhile_and_waits_for_no_other(log: given.JobLog) -> None:
    deploying(log)
    update(log, services=[{"name": "api", "task_type": "serve", "replicas": 2}])
    log.work()
    told = [task.instruction for task in log.tasks() if task.task_type == "serve"]
    assert [None if each is None else each.body["model"]["version"] for each in told] == [2, 2]
    assert log.job.live.version == 2
    other = given.JobLog()
    deploying(other)
    update(other, services=[])
    assert (other.job.live.version, other.job.update) == (2, None)


@pytest.mark.parametrize("how", [AttemptEnd.FAILED, AttemptEnd.LOST])
def test_no_time_limit_is_kept_for_another_try_of_a_service_that_is_away(
    log: given.JobLog, how: AttemptEnd
) -> None:
    service = deploying(log, confirm_s=600)
    log.acknowledge(service, ok=False, message="no memory")
    log.end(service, how=how)
    log.wait(60)
    due_ms = log.next_due_ms()
    assert due_ms is None if how is AttemptEnd.LOST else due_ms is not None and due_ms > log.now_ms


def update(log: given.JobLog, **deploy: Any) -> None:
    body = {"job": given.job_body(deploy={**ALWAYS, **deploy})}
    log.command(given.JOB, given.UPDATE, body)


def test_a_service_that_begins_anew_and_can_not_load_the_live_model_is_asked_again(log: given.JobLog) -> None:
    service = deploying(log)
    log.acknowledge(service)
    live = log.job.live.artifact.sha256
    log.end(service, how=AttemptEnd.FAILED)
    log.now_ms = max(log.now_ms, service.not_before_ms)
    log.ready(service, sha256=given.digest("initial"))
    log.acknowledge(service, ok=False, message="it could not read it")
    assert not [event for event in log.wait(9) if isinstance(event, InstructionGiven)]
    (order,) = [event for event in log.wait(1) if isinstance(event, InstructionGiven)]
    assert (order.body["update"], order.body["model"]["artifact"]["sha256"]) == (1, live)
    log.acknowledge(service, ok=False, message="it could not read it")
    assert not [event for event in log.wait(19) if isinstance(event, InstructionGiven)]
    assert [event for event in log.wait(1) if isinstance(event, InstructionGiven)]
    log.acknowledge(service)
    assert not log.wait(3_600)
