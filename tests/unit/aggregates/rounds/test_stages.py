"""Stages of a round: samples, tasks, children, what blocks them, and the versions for evaluation."""

import random
from typing import Any

import pytest

from tests.unit.aggregates.rounds.given import JOB, JobLog, digest, event_names, manifest_of
from trackside.aggregates.rounds.messages import (
    ModelTrained,
    RoundEnded,
    RoundStarted,
    SampleManifestWritten,
    StageBlocked,
    StageEnded,
    StageState,
    TriggerEvaluated,
)
from trackside.aggregates.rounds.split import samples
from trackside.contracts.children import ChildEnded, ChildRequested
from trackside.contracts.commands import CommandRefused
from trackside.contracts.message import Json
from trackside.domain.task import Task

EVERY_100: Json = {"type": "condition", "metric": "num_of_samples", "operator": ">=", "threshold": 80}


@pytest.fixture
def log() -> JobLog:
    return JobLog()


def train(**changed: Any) -> Json:
    return {"task_type": "train", "check_period_s": 0, **changed}


def the_task(log: JobLog, purpose: str) -> Task:
    (found,) = [task for task in log.tasks() if task.task_id.split(".")[-2] == purpose]
    return found


def written_by(task: Task) -> Json:
    """Returns what the task that writes samples returns."""
    return manifest_of(task.parameters)


def refusals(log: JobLog, kind: str, **body: Any) -> list[tuple[str, str]]:
    """Returns code and path of what a command for the job is refused for."""
    found = [each for each in log.command(JOB, kind, body) if isinstance(each, CommandRefused)]
    return [(each.code, each.path) for each in found]


def test_a_round_begins_once_there_are_as_many_samples_as_its_trigger_asks_for(log: JobLog) -> None:
    """I13."""
    log.create(train=train(trigger=EVERY_100))
    log.append(99)
    log.work()
    assert not log.of(TriggerEvaluated)
    log.append(1)
    log.work()
    first = log.of(TriggerEvaluated)[0]
    assert (first.stage, first.fired) == ("train", True)
    assert first.values["num_of_samples"].value == 80


def test_samples_that_come_while_a_round_begins_belong_to_the_next_one(log: JobLog) -> None:
    log.create()
    log.append(10)
    log.append(7)
    log.end(the_task(log, "train-samples"), written_by(the_task(log, "train-samples")))
    assert [event.train for event in log.of(RoundStarted)] == [(0, 10)]
    assert log.job.pool.training == 5


def test_samples_that_can_not_be_written_block_the_stage_and_are_written_later(log: JobLog) -> None:
    """I21: in Sedna the error is swallowed, and the stage tried again each 10 s without a word."""
    log.create()
    log.append(10)
    for number, wait_s in enumerate((10, 20, 40), 1):
        written = log.end(the_task(log, "train-samples"), error="StoreUnreachable")
        assert event_names(written) == (["StageBlocked"] if number == 1 else [])
        assert not log.wait(wait_s - 0.001)
        assert event_names(log.wait(0.001)) == ["TaskSubmitted"]
    (blocked,) = [event for event in log.of(StageBlocked) if event.reason != "no_samples"]
    assert (blocked.reason, blocked.message) == ("store_unreachable", "it was StoreUnreachable")
    log.work()
    assert log.of(RoundEnded)[0].status == "completed"


def test_an_evaluation_without_samples_waits_for_some(log: JobLog) -> None:
    """I19: Sedna writes an empty file."""
    log.create(dataset={"name": "feed", "train_prob": 1.0})
    log.append(10)
    log.work()
    assert log.job.stage == "eval"
    assert log.job.blocked == "no_samples"
    changed = {"dataset": {"name": "feed", "train_prob": 0.5}}
    log.command(
        JOB, "trackside.update-incremental-job.v1", {"job": log.job.spec.model_dump(mode="json") | changed}
    )
    log.append(10)
    log.work()
    assert [event.lines for event in log.of(SampleManifestWritten)][:2] == [10, 5]


def test_an_evaluation_has_exactly_the_newest_versions(log: JobLog) -> None:
    """I18, I19: in Sedna samples are repeated, and one version is dropped for each evaluation."""
    feed = {"name": "feed", "train_prob": 0.5, "eval_versions": 3}
    log.create(dataset=feed, train=train(trigger={"type": "manual"}))
    for _ in range(6):
        log.append(4)
        log.append(6)
        log.command(JOB, "trackside.fire-train.v1", {})
        log.work()
    written = [event.lines for event in log.of(SampleManifestWritten) if event.stage == "eval"]
    assert written == [5, 10, 15, 15, 15, 15]


@pytest.mark.parametrize("pieces", [[100], [25] * 4, [10] * 10, [1] * 100])
def test_samples_are_divided_exactly_however_they_arrive(log: JobLog, pieces: list[int]) -> None:
    """I16, I17: in Sedna 100 samples that arrive one by one give none for training."""
    log.create(train=train(trigger={"type": "manual"}))
    for piece in pieces:
        log.append(piece)
    assert (log.job.pool.training, log.job.pool.newest) == (80, 20)


def test_a_stage_may_be_a_search_whose_best_model_counts(log: JobLog) -> None:
    space = {"lr": {"type": "choice", "values": [0.1]}}
    search: Json = {"task_type": "train", "max_trials": 1, "space": space}
    log.create(train={"kind": "search", "spec": search, "check_period_s": 0})
    log.append(10)
    log.end(the_task(log, "train-samples"), written_by(the_task(log, "train-samples")))
    (child,) = log.of(ChildRequested)
    assert (child.child_id, child.kind) == ("digits.r1.train.1", "search")
    assert set(child.body["inputs"]) == {"samples", "model"}
    model: Json = {
        "artifact": {"uri": f"store:sha256/{digest('best')}", "sha256": digest("best"), "size_bytes": 4},
        "format": "safetensors",
        "stream": "digits.r1.train.1",
        "task": "digits.r1.train.1.0",
        "attempt": 1,
    }
    found: Json = {"trials": 1, "best": [{"trial": 0, "value": 0.5}], "trained_models": [model]}
    ended = ChildEnded(child_id=child.child_id, status="DONE", result=found)
    log.tell(ended, role="dispatcher")
    log.settle()
    assert [event.version.artifact.sha256 for event in log.of(ModelTrained)] == [digest("best")]


@pytest.mark.parametrize(
    ("kind", "metadata", "reason"),
    [("file", {}, "saved no artifact of kind"), ("model", {"format": "onnx"}, "saved no model that fits")],
)
def test_training_without_a_model_that_fits_fails(
    log: JobLog, kind: str, metadata: Json, reason: str
) -> None:
    """I20, I38: Sedna dereferences nil."""
    log.create()
    log.append(10)
    log.end(the_task(log, "train-samples"), written_by(the_task(log, "train-samples")))
    task = the_task(log, "train")
    log.save(task, "weights", kind=kind, **metadata)
    log.end(task)
    ended = log.of(StageEnded)[0]
    assert (ended.status, ended.reason) == (StageState.FAILED, "no_model")
    assert reason in ended.message


def test_a_round_that_fails_is_tried_again_ever_later(log: JobLog) -> None:
    log.create()
    log.append(10)
    for wait_s in (10, 20, 40, 80, 160, 320, 360, 360):
        log.end(the_task(log, "train-samples"), written_by(the_task(log, "train-samples")))
        log.end(the_task(log, "train"), error="ValueError")
        assert not log.wait(wait_s - 0.001)
        assert event_names(log.wait(0.001)) == ["TriggerEvaluated", "TaskSubmitted"]


def test_the_base_of_a_round_is_what_was_trained_last_or_what_is_live(log: JobLog) -> None:
    """I20: Sedna's is always what was trained last, also if that was refused."""
    other = JobLog()
    for each, start_from in ((log, "trained"), (other, "deployed")):
        each.create(start_from=start_from)
        for _ in range(2):
            each.append(10)
            each.work()
    assert [event.base.version for event in log.of(RoundStarted)] == [1, 2]
    assert [event.base.version for event in other.of(RoundStarted)] == [1, 1]


def test_a_paused_or_deleted_job_begins_nothing_by_a_command_either(log: JobLog) -> None:
    log.create(train=train(trigger={"type": "manual"}))
    log.append(10)
    log.command(JOB, "trackside.pause-incremental-job.v1", {})
    assert refusals(log, "trackside.fire-train.v1") == [("paused", "$partitionkey")]
    log.command(JOB, "trackside.resume-incremental-job.v1", {})
    assert refusals(log, "trackside.fire-eval.v1") == [("wrong_stage", "$partitionkey")]
    log.command(JOB, "trackside.delete-incremental-job.v1", {})
    assert refusals(log, "trackside.fire-train.v1") == [("already_terminal", "$partitionkey")]
    assert refusals(log, "trackside.create-incremental-job.v1")[0][0] != ""


def test_a_stage_that_is_fired_by_a_command_says_so(log: JobLog) -> None:
    """I39."""
    log.create(train=train(trigger={"type": "manual"}))
    log.append(10)
    assert refusals(log, "trackside.fire-train.v1") == []
    (evaluated,) = log.of(TriggerEvaluated)
    assert (evaluated.fired, evaluated.result, evaluated.command_id) == (True, False, f"c-{log.commands}")


def test_a_changed_trigger_counts_from_the_next_round(log: JobLog) -> None:
    log.create(train=train(trigger=EVERY_100))
    log.append(50)
    log.work()
    body = log.job.spec.model_dump(mode="json")
    body["train"]["trigger"]["threshold"] = 40
    assert refusals(log, "trackside.update-incremental-job.v1", job=body) == []
    log.work()
    assert [event.status for event in log.of(RoundEnded)] == ["completed"]


@pytest.mark.parametrize("seed", range(5))
def test_each_sample_is_in_one_place_whatever_fails(log: JobLog, seed: int) -> None:
    drawn = random.Random(seed)
    log.create(
        train=train(
            trigger={"type": "condition", "metric": "num_of_samples", "operator": ">", "threshold": 3}
        )
    )
    for _ in range(200):
        open_tasks = log.tasks()
        match drawn.choice(("append", "append", "work", "fail", "wait")):
            case "append":
                log.append(drawn.randrange(1, 9))
            case "fail" if open_tasks:
                log.end(drawn.choice(open_tasks), error="ValueError")
            case "work" if open_tasks:
                log.do(drawn.choice(open_tasks))
            case "wait":
                log.wait(drawn.choice((1, 100)))
    log.wait(1_000)
    log.work()
    trained: list[int] = []
    completed = {event.number for event in log.of(RoundEnded) if event.status == "completed"}
    for event in log.of(RoundStarted):
        if event.number in completed:
            trained += samples(log.job.pool.segments, *event.train, "train")
    waiting = list(samples(log.job.pool.segments, log.job.pool.first, log.job.pool.end, "train"))
    assert trained + waiting == list(samples(log.job.pool.segments, 0, log.lines, "train"))


def test_all_problems_of_a_definition_are_named_at_once(log: JobLog) -> None:
    """I39."""
    body: Json = {
        "dataset": {"name": "absent", "train_prob": 0.5},
        "model": "absent",
        "initial_model": "absent@3",
        "train": {"task_type": "absent", "trigger": {"type": "daily", "start": "09:00", "end": "09:00"}},
        "eval": {"trigger": {"type": "condition", "metric": "median(x)", "operator": ">", "threshold": 1}},
        "deploy": {"copy_to": {"url": "/srv/m", "credential": "absent"}},
        "output": {"url": "/srv/out", "credential": "absent"},
    }
    (refused,) = [
        each
        for each in log.command(JOB, "trackside.create-incremental-job.v1", body)
        if isinstance(each, CommandRefused)
    ]
    assert sorted({problem.path for problem in refused.problems}) == [
        "$.dataset.name",
        "$.deploy.copy_to.credential",
        "$.eval",
        "$.eval.trigger.metric",
        "$.initial_model",
        "$.model",
        "$.output.credential",
        "$.train.task_type",
        "$.train.trigger.end",
    ]


@pytest.mark.parametrize("train_prob", [-0.1, 1.1, float("nan")])
def test_a_share_outside_0_to_1_is_refused(log: JobLog, train_prob: float) -> None:
    body = {"dataset": {"name": "feed", "train_prob": train_prob}}
    with pytest.raises(AssertionError):
        log.create(**body)
