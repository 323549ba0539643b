"""Jobs with summaries, of one stream or of all."""

from contextlib import closing

from tests.integration.projections.given_jobs import GivenJob, write_jobs
from trackside.projections.postgres import database as opened_database
from trackside.projections.read_pool import ReadModelsPool
from trackside.projections.summaries.chosen import ChosenJobs, read_jobs


def task(job_id: str, stream: str, last_step: int, status: str = "ACTIVE") -> GivenJob:
    fields = {
        "stream": stream,
        "task_type": "t",
        "name": "",
        "state": "ended",
        "started_ms": 1,
        "ended_ms": 2,
    }
    return GivenJob(job_id, fields, metrics={"loss": {1: {0: 1.0, last_step: 0.5}}}, status=status)


async def jobs(
    dsn: str, stream_id: str | None, text: str = "", limit: int = 20, offset: int = 0
) -> ChosenJobs:
    with closing(ReadModelsPool(dsn, size=1)) as pool:
        async with pool.read() as models:
            return await read_jobs(models, stream_id, text, limit, offset)


async def given_four(dsn: str) -> None:
    async with opened_database(dsn) as opened:
        await write_jobs(
            opened,
            [
                task("a.1", "a", 10),
                task("a.2", "a", 20),
                task("b.1", "b", 30),
                task("a.3", "a", 40, "DELETED"),
                GivenJob("folder", metrics={"loss": {1: {0: 1.0, 5: 0.1}}}),
            ],
        )


async def test_jobs_are_those_of_a_stream_newest_first_without_deleted_ones(database: str) -> None:
    await given_four(database)
    found = await jobs(database, "a")
    assert [row["job_id"] for row in found.rows] == ["a.2", "a.1"]
    assert found.rows[0]["points"] == 2 and found.rows[0]["last_step"] == 20
    assert found.total == 2
    assert [row["job_id"] for row in (await jobs(database, "folder")).rows] == ["folder"]


async def test_jobs_of_all_streams_are_filtered_and_paged(database: str) -> None:
    await given_four(database)
    assert [row["job_id"] for row in (await jobs(database, None)).rows] == ["b.1", "a.2", "a.1", "folder"]
    assert [row["job_id"] for row in (await jobs(database, None, "A.")).rows] == ["a.2", "a.1"]
    second = await jobs(database, None, limit=1, offset=1)
    assert [row["job_id"] for row in second.rows] == ["a.2"] and second.total == 4
