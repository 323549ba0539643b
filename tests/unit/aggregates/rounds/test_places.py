"""What a job writes is written by no other job: Sedna lets two jobs overwrite each other's files."""

from typing import Any

import pytest

from tests.unit.aggregates.rounds.given import CAPABILITIES, JOB, JobLog, job_body
from trackside.aggregates.rounds.messages import DeleteIncrementalJob, UpdateIncrementalJob
from trackside.contracts.commands import CommandRefused
from trackside.domain.stream_index import StreamIndex

CREATE = "trackside.create-incremental-job.v1"
LIVE = {"trigger": None, "copy_to": {"url": "/srv/live.bin"}}
OTHER = "digits-2"


@pytest.fixture
def log() -> JobLog:
    log = JobLog()
    log.create(deploy=LIVE)
    return log


def refusals(log: JobLog, **changed: Any) -> list[tuple[str, str, str]]:
    """Returns why another job is refused: codes, paths and messages."""
    written = log.command(OTHER, CREATE, job_body(**changed))
    return problems(written)


def problems(written: list[Any]) -> list[tuple[str, str, str]]:
    refused = [event for event in written if isinstance(event, CommandRefused)]
    return [(each.code, each.path, each.message) for event in refused for each in event.problems]


@pytest.mark.parametrize(
    "url", ["/srv/live.bin", "file:///srv/live.bin", "file://localhost/srv/live.bin", "/srv//./live.bin"]
)
def test_a_model_is_not_copied_to_the_file_of_another_job(log: JobLog, url: str) -> None:
    found = refusals(log, deploy={"copy_to": {"url": url}}, output={"url": "/srv/out-2"})
    assert [each[:2] for each in found] == [("place_in_use", "$.deploy.copy_to.url")]
    assert found[0][2] == f"job 'digits' writes to {url}; expected another place, or delete that job first"


def test_samples_are_not_written_to_the_folder_of_another_job(log: JobLog) -> None:
    """I30: both would write data/train/1/data.txt. All problems are named at once."""
    found = refusals(log, deploy=LIVE, output={"url": "/srv/out/"})
    assert [each[1] for each in found] == ["$.output.url", "$.deploy.copy_to.url"]


def test_a_job_does_not_write_over_its_own_dataset(log: JobLog) -> None:
    found = refusals(log, deploy={"copy_to": {"url": "/srv/feed.txt"}}, output={"url": "/srv/out-2"})
    assert [each[:2] for each in found] == [("place_in_use", "$.deploy.copy_to.url")]
    assert "is dataset 'feed'" in found[0][2]


def test_two_jobs_have_one_dataset_one_model_and_one_folder_of_config_files(log: JobLog) -> None:
    """I27: each has a folder of its id below `config`."""
    config = {"config": {"url": "/srv/hot"}}
    log.command(JOB, UpdateIncrementalJob.model_validate({"job": job_body(deploy={**LIVE, **config})}))
    assert refusals(log, deploy=config, output={"url": "/srv/out-2"}) == []
    log.append(10)
    assert log.job.pool.end == 10


def test_a_place_is_free_once_its_job_is_deleted_or_writes_to_another_one(log: JobLog) -> None:
    moved = job_body(deploy=LIVE, output={"url": "/srv/out-3"})
    log.command(JOB, UpdateIncrementalJob.model_validate({"job": moved}))
    free = {"deploy": {}, "output": {"url": "/srv/out"}}
    assert refusals(log, **free) == []
    assert problems(log.command("digits-3", CREATE, job_body(**free)))
    log.command(OTHER, DeleteIncrementalJob())
    assert problems(log.command("digits-3", CREATE, job_body(**free))) == []


def test_a_job_is_not_changed_to_write_where_another_one_does(log: JobLog) -> None:
    assert refusals(log, deploy={}, output={"url": "/srv/out-2"}) == []
    changed = UpdateIncrementalJob.model_validate({"job": job_body(deploy={})})
    assert [each[:2] for each in problems(log.command(OTHER, changed))] == [
        ("place_in_use", "$.job.output.url")
    ]
    assert problems(log.command(JOB, UpdateIncrementalJob.model_validate({"job": job_body(deploy={})}))) == []


def test_a_dispatcher_that_starts_again_knows_what_jobs_write(log: JobLog) -> None:
    log.index = StreamIndex(log.streams)
    assert [stream.stream_id for stream in log.index.lookup(CAPABILITIES).having("written:/srv/out")] == [JOB]
    assert refusals(log) != []
