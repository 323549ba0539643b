"""A model that is a folder can't be copied to where one file is read: what is refused, and when."""

from typing import Any

import pytest

from tests.unit.aggregates.rounds.given import JOB, MODEL, JobLog, digest, job_body
from trackside.aggregates.rounds.deploy_messages import ModelUpdateFailed, ModelUpdatePublished
from trackside.aggregates.rounds.messages import RoundEnded, StageEnded
from trackside.contracts.artifacts import FOLDER_MEDIA_TYPE
from trackside.contracts.commands import CommandRefused
from trackside.domain.task import Task

CREATE, UPDATE = "trackside.create-incremental-job.v1", "trackside.update-incremental-job.v1"
FILES: dict[str, Any] = {"copy_to": {"url": "/srv/live"}, "config": {"url": "/srv/hot"}, "tries": 1}
SERVICES: dict[str, Any] = {"services": [{"name": "api", "task_type": "serve"}]}


@pytest.fixture
def log() -> JobLog:
    return JobLog()


def add_folder(log: JobLog) -> dict[str, Any]:
    """Adds a version to the model that is a folder; returns its name."""
    sha256 = digest("folder")
    artifact = {"uri": f"store:sha256/{sha256}", "sha256": sha256, "size_bytes": 8}
    body = {"artifact": {**artifact, "media_type": FOLDER_MEDIA_TYPE}, "format": "safetensors"}
    log.command(MODEL, "trackside.add-model-version.v1", body)
    return {"model": MODEL, "version": 2}


def refusals(log: JobLog, command: str, body: dict[str, Any]) -> list[tuple[str, str, str]]:
    written = log.command(JOB, command, body)
    return [(each.code, each.path, each.message) for each in written if isinstance(each, CommandRefused)]


def trained_as_folder(log: JobLog) -> Task:
    """Lets a round train a model that its task saves as a folder; returns the task."""
    log.append(10)
    while not (found := [task for task in log.tasks() if task.task_type == "train"]):
        assert any(log.do(task) for task in log.tasks())
    log.save(found[0], "trained folder", media_type=FOLDER_MEDIA_TYPE, format="safetensors")
    log.end(found[0])
    return found[0]


def test_a_job_whose_initial_model_is_a_folder_is_refused_if_it_copies_models(log: JobLog) -> None:
    body = job_body(initial_model=add_folder(log), deploy=FILES)
    ((code, path, message),) = refusals(log, CREATE, body)
    assert (code, path) == ("folder_model", "$.initial_model")
    assert message.startswith(f"{MODEL}@2 is a folder, and by deploy.copy_to and deploy.config models are")
    assert "save models as one file, or leave deploy.copy_to and deploy.config out" in message
    assert not refusals(log, CREATE, {**body, "deploy": SERVICES})
    ((code, path, message),) = refusals(log, UPDATE, {"job": {**body, "deploy": {"config": FILES["config"]}}})
    assert (code, path) == ("folder_model", "$.job.initial_model")
    assert "deploy.config" in message and "copy_to" not in message


def test_a_round_that_trains_a_folder_fails_if_the_job_copies_models(log: JobLog) -> None:
    log.create(deploy=FILES)
    trained_as_folder(log)
    (ended,), (round_ended,) = log.of(StageEnded), log.of(RoundEnded)
    assert (ended.stage, ended.reason, round_ended.reason) == ("train", "folder_model", "folder_model")
    assert ended.message.startswith("its task saved a folder; by deploy.copy_to and deploy.config")
    assert not log.of(ModelUpdatePublished)


def test_services_take_a_folder(log: JobLog) -> None:
    log.create(deploy=SERVICES)
    trained_as_folder(log)
    log.work()
    assert log.job.live.version == 2 and log.job.live.artifact.media_type == FOLDER_MEDIA_TYPE


def test_a_rollback_to_a_folder_that_cannot_be_copied_says_why(log: JobLog) -> None:
    """It was live before the job had `copy_to`."""
    log.create(deploy=SERVICES)
    trained_as_folder(log)
    log.work()
    log.append(10)
    log.work()
    assert log.job.live.version == 3
    log.command(JOB, UPDATE, {"job": job_body(deploy=FILES)})
    log.command(JOB, "trackside.rollback-model.v1", {"version": 2})
    copies = [task for task in log.tasks() if task.parameters.get("target") == "copy"]
    log.end(copies[0], error="not_a_file")
    assert [each.message for each in log.of(ModelUpdateFailed)] == ["it was not_a_file"]
