"""What a job writes, and where: no other job writes there (in Sedna two jobs overwrite each other's files).

A model that is a folder can't be copied to where one file is read.
"""

from typing import Any

import pytest

from tests.unit.aggregates.rounds import given
from trackside.aggregates.rounds.job.deploy_messages import ModelUpdateFailed, ModelUpdatePublished
from trackside.aggregates.rounds.messages import RoundEnded, StageEnded
from trackside.contracts.envelope.message import Json
from trackside.contracts.tasks.artifacts import FOLDER_MEDIA_TYPE
from trackside.domain.folding.stream_index import StreamIndex

LIVE: Json = {"trigger": None, "copy_to": {"url": "/srv/live.bin"}}
FILES: Json = {"copy_to": {"url": "/srv/live"}, "config": {"url": "/srv/hot"}, "tries": 1}
SERVICES: Json = {"services": [{"name": "api", "task_type": "serve"}]}
OTHER, FREE = "digits-2", {"url": "/srv/out-2"}


@pytest.fixture
def first(log: given.JobLog) -> given.JobLog:
    log.create(deploy=LIVE)
    return log


def problems(log: given.JobLog, job: str = OTHER, **changed: Any) -> list[tuple[str, str, str]]:
    found = log.refusals(given.CREATE, given.job_body(**changed), job)
    return [(each.code, each.path, each.message) for each in found]


def update(log: given.JobLog, job: str = given.JOB, **changed: Any) -> list[tuple[str, str]]:
    found = log.refusals(given.UPDATE, {"job": given.job_body(**changed)}, job)
    return [(each.code, each.path) for each in found]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        *(
            (url, f"job 'digits' writes to {url}; expected another place, or delete that job first")
            for url in ("/srv/live.bin", "file:///srv/live.bin", "file://localhost/srv/live.bin")
        ),
        ("/srv//./live.bin", "job 'digits' writes to /srv//./live.bin; "),
        ("/srv/feed.txt", "is dataset 'feed'"),
    ],
)
def test_a_model_is_not_copied_to_a_file_of_another_job_or_a_dataset(first: Any, url: str, said: str) -> None:
    ((code, path, message),) = problems(first, deploy={"copy_to": {"url": url}}, output=FREE)
    assert (code, path) == ("place_in_use", "$.deploy.copy_to.url")
    assert said in message


def test_no_job_is_created_or_changed_to_write_where_another_one_does(first: given.JobLog) -> None:
    """I30: both would write data/train/1/data.txt. All problems are named at once."""
    found = problems(first, deploy=LIVE, output={"url": "/srv/out/"})
    assert [each[1] for each in found] == ["$.output.url", "$.deploy.copy_to.url"]
    assert problems(first, deploy={}, output=FREE) == []
    assert update(first, OTHER, deploy={}) == [("place_in_use", "$.job.output.url")]
    assert update(first, deploy={}) == []


def test_two_jobs_have_one_dataset_one_model_and_one_folder_of_config_files(first: given.JobLog) -> None:
    """I27: each has a folder of its id below `config`."""
    config = {"config": {"url": "/srv/hot"}}
    assert update(first, deploy={**LIVE, **config}) == []
    assert problems(first, deploy=config, output=FREE) == []
    first.append(10)
    assert first.job.pool.end == 10


def test_a_place_is_free_once_its_job_is_deleted_or_writes_to_another_one(first: given.JobLog) -> None:
    assert update(first, deploy=LIVE, output={"url": "/srv/out-3"}) == []
    free: Json = {"deploy": {}, "output": {"url": "/srv/out"}}
    assert problems(first, **free) == []
    assert problems(first, "digits-3", **free) != []
    first.command(OTHER, given.DELETE, {})
    assert problems(first, "digits-3", **free) == []


def test_a_dispatcher_that_starts_again_knows_what_jobs_write(first: given.JobLog) -> None:
    first.index = StreamIndex(first.streams)
    known = first.index.lookup(given.CAPABILITIES).having("written:/srv/out")
    assert [stream.stream_id for stream in known] == [given.JOB]
    assert problems(first) != []


def train_a_folder(log: given.JobLog) -> None:
    log.append(10)
    task = log.stage_task("train")
    log.save(task, "trained folder", media_type=FOLDER_MEDIA_TYPE, format="safetensors")
    log.end(task)


def test_a_job_whose_initial_model_is_a_folder_is_refused_if_it_copies_models(log: given.JobLog) -> None:
    sha256 = given.digest("folder")
    artifact = {"uri": f"store:sha256/{sha256}", "sha256": sha256, "size_bytes": 8}
    version = {"artifact": {**artifact, "media_type": FOLDER_MEDIA_TYPE}, "format": "safetensors"}
    log.command(given.MODEL, "trackside.add-model-version.v1", version)
    folder = {"model": given.MODEL, "version": 2}
    ((code, path, message),) = problems(log, given.JOB, initial_model=folder, deploy=FILES)
    assert (code, path) == ("folder_model", "$.initial_model")
    assert message.startswith(f"{given.MODEL}@2 is a folder, and by deploy.copy_to and deploy.config models")
    assert "save models as one file, or leave deploy.copy_to and deploy.config out" in message
    assert problems(log, given.JOB, initial_model=folder, deploy=SERVICES) == []
    changed = given.job_body(initial_model=folder, deploy={"config": FILES["config"]})
    (problem,) = log.refusals(given.UPDATE, {"job": changed})
    assert (problem.code, problem.path) == ("folder_model", "$.job.initial_model")
    assert "deploy.config" in problem.message and "copy_to" not in problem.message


def test_a_round_that_trains_a_folder_fails_if_the_job_copies_models(log: given.JobLog) -> None:
    log.create(deploy=FILES)
    train_a_folder(log)
    (ended,), (round_ended,) = log.of(StageEnded), log.of(RoundEnded)
    assert (ended.stage, ended.reason, round_ended.reason) == ("train", "folder_model", "folder_model")
    assert ended.message.startswith("its task saved a folder; by deploy.copy_to and deploy.config")
    assert not log.of(ModelUpdatePublished)


def test_services_take_a_folder_and_a_rollback_to_one_that_is_not_copied_says_why(log: given.JobLog) -> None:
    """It was live before the job had `copy_to`."""
    log.create(deploy=SERVICES)
    train_a_folder(log)
    log.work()
    assert log.job.live.version == 2 and log.job.live.artifact.media_type == FOLDER_MEDIA_TYPE
    log.next_round()
    assert update(log, deploy=FILES) == []
    log.command(given.JOB, given.ROLLBACK, {"version": 2})
    copies = [task for task in log.tasks() if task.parameters.get("target") == "copy"]
    log.end(copies[0], error="not_a_file")
    assert [each.message for each in log.of(ModelUpdateFailed)] == ["it was not_a_file"]
