"""Stages of a round: samples, tasks, children, what blocks them, and the versions for evaluation."""

from typing import Any

import pytest

from tests.unit.aggregates.rounds import given
from trackside.aggregates.rounds import messages
from trackside.contracts.envelope.message import Json
from trackside.contracts.fleet.fleet import WRITE_MANIFEST


def train(**changed: Any) -> Json:
    return {"task_type": "train", "check_period_s": 0, **changed}


def test_samples_that_can_not_be_written_block_the_stage_and_are_written_later(log: given.JobLog) -> None:
    """I21: in Sedna the error is swallowed, and the stage tried again each 10 s without a word."""
    log.create()
    log.append(10)
    for number, wait_s in enumerate((10, 20, 40), 1):
        written = log.end(log.stage_task(WRITE_MANIFEST), error="StoreUnreachable")
        assert given.event_names(written) == (["StageBlocked"] if number == 1 else [])
        assert not log.wait(wait_s - 0.001)
        assert given.event_names(log.wait(0.001)) == ["TaskSubmitted"]
    (blocked,) = [event for event in log.of(messages.StageBlocked) if event.reason != "no_samples"]
    assert (blocked.reason, blocked.message) == ("store_unreachable", "it was StoreUnreachable")
    log.work()
    assert log.of(messages.RoundEnded)[0].status == "completed"


def test_an_evaluation_without_samples_waits_for_some(log: given.JobLog) -> None:
    """I19: Sedna writes an empty file."""
    log.first_round(dataset={"name": "feed", "train_prob": 1.0})
    assert (log.job.stage, log.job.blocked) == ("eval", "no_samples")
    changed = {"dataset": {"name": "feed", "train_prob": 0.5}}
    log.command(given.JOB, given.UPDATE, {"job": log.job.spec.model_dump(mode="json") | changed})
    log.next_round()
    assert [event.lines for event in log.of(messages.SampleManifestWritten)][:2] == [10, 5]


def test_an_evaluation_has_exactly_the_newest_versions(log: given.JobLog) -> None:
    """I18, I19: in Sedna samples are repeated, and one version is dropped for each evaluation."""
    feed = {"name": "feed", "train_prob": 0.5, "eval_versions": 3}
    log.create(dataset=feed, train=train(trigger={"type": "manual"}))
    for _ in range(6):
        log.append(4)
        log.append(6)
        log.command(given.JOB, given.FIRE_TRAIN, {})
        log.work()
    written = [event.lines for event in log.of(messages.SampleManifestWritten) if event.stage == "eval"]
    assert written == [5, 10, 15, 15, 15, 15]


@pytest.mark.parametrize(
    ("kind", "metadata", "reason"),
    [("file", {}, "saved no artifact of kind"), ("model", {"format": "onnx"}, "saved no model that fits")],
)
def test_training_fails_without_a_model(log: given.JobLog, kind: str, metadata: Any, reason: str) -> None:
    """I20, I38: Sedna dereferences nil."""
    log.create()
    log.append(10)
    task = log.stage_task("train")
    log.save(task, "weights", kind=kind, **metadata)
    log.end(task)
    ended = log.of(messages.StageEnded)[0]
    assert (ended.status, ended.reason) == (messages.StageState.FAILED, "no_model")
    assert reason in ended.message


def test_a_round_that_fails_is_tried_again_ever_later(log: given.JobLog) -> None:
    log.create()
    log.append(10)
    for wait_s in (10, 20, 40, 80, 160, 320, 360, 360):
        log.end(log.stage_task("train"), error="ValueError")
        assert not log.wait(wait_s - 0.001)
        assert given.event_names(log.wait(0.001)) == ["TriggerEvaluated", "TaskSubmitted"]


def test_the_base_of_a_round_is_what_was_trained_last_or_what_is_live(log: given.JobLog) -> None:
    """I20: Sedna's is always what was trained last, also if that was refused."""
    other = given.JobLog()
    for each, start_from in ((log, "trained"), (other, "deployed")):
        each.create(start_from=start_from)
        for _ in range(2):
            each.append(10)
            each.work()
    assert [event.base.version for event in log.of(messages.RoundStarted)] == [1, 2]
    assert [event.base.version for event in other.of(messages.RoundStarted)] == [1, 1]


def test_a_command_fires_a_stage_which_names_it_but_not_of_a_paused_or_deleted_job(log: given.JobLog) -> None:
    """I39."""
    log.create(train=train(trigger={"type": "manual"}))
    log.append(10)
    log.command(given.JOB, "trackside.pause-incremental-job.v1", {})
    assert log.refused(given.FIRE_TRAIN) == "paused"
    log.command(given.JOB, "trackside.resume-incremental-job.v1", {})
    assert (log.refused("trackside.fire-eval.v1"), log.refused(given.FIRE_TRAIN)) == ("wrong_stage", "")
    (evaluated,) = log.of(messages.TriggerEvaluated)
    assert (evaluated.fired, evaluated.result, evaluated.command_id) == (True, False, f"c-{log.commands}")
    log.command(given.JOB, given.DELETE, {})
    assert log.refused(given.FIRE_TRAIN) == "already_terminal"
    assert log.refused(given.CREATE) != ""


def test_a_changed_trigger_counts_from_the_next_round(log: given.JobLog) -> None:
    log.create(train=train(trigger=given.condition("num_of_samples", ">=", 80)))
    log.append(50)
    log.work()
    body = log.job.spec.model_dump(mode="json")
    body["train"]["trigger"]["threshold"] = 40
    assert log.refused(given.UPDATE, {"job": body}) == ""
    log.work()
    assert [event.status for event in log.of(messages.RoundEnded)] == ["completed"]


def test_all_problems_of_a_definition_are_named_at_once(log: given.JobLog) -> None:
    """I39."""
    body: Json = {
        "dataset": {"name": "absent", "train_prob": 0.5},
        "model": "absent",
        "initial_model": "absent@3",
        "train": {"task_type": "absent", "trigger": {"type": "daily", "start": "09:00", "end": "09:00"}},
        "eval": {"trigger": given.condition("median(x)", ">", 1)},
        "deploy": {"copy_to": {"url": "/srv/m", "credential": "absent"}},
        "output": {"url": "/srv/out", "credential": "absent"},
    }
    assert {problem.path.removeprefix("$.") for problem in log.refusals(given.CREATE, body)} == {
        *("dataset.name", "model", "initial_model", "deploy.copy_to.credential", "output.credential"),
        *("train.task_type", "train.trigger.end", "eval", "eval.trigger.metric"),
    }
