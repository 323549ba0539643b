"""Jobs with summaries: what they pass on to each other (S22), and those of one stream or of all."""

import json
from typing import Any

import pytest
import pytest_asyncio

from tests.integration.projections.given_jobs import GivenJob, write_artifacts, write_jobs
from trackside.contracts.tasks.summaries import ReportedItem, SummaryItemsReported
from trackside.projections.database.postgres import copy
from trackside.projections.database.postgres import database as opened_database
from trackside.projections.job_search.search import JobSearch, search_jobs
from trackside.projections.pages.lineage import JobLineage, lineage
from trackside.projections.reading.read_pool import ReadModelsPool
from trackside.projections.summaries.chosen import ChosenJobs, read_jobs
from trackside.projections.tables.artifacts import ArtifactUseRows
from trackside.projections.tables.metrics import rows_of
from trackside.projections.writing.metric_writes import write_metrics
from trackside.summaries.event_files.values import HParams, TextRows
from trackside.summaries.kinds.hparams import HPARAMS
from trackside.summaries.kinds.text import TEXT

SAVED = [
    ("prepare", "digits", "d1"),
    ("train", "weights", "w1"),
    ("train", "log", "l1"),
    ("other", "weights", "w1"),
]
USED = [
    ("train", "digits", "d1", "prepare"),
    ("evaluate", "weights", "w1", "train"),
    ("evaluate", "digits", "d1", ""),
    ("prepare", "raw", "r1", ""),
]
"""Task, name, digest, and the task that is named as the source: train and other have saved equal bytes."""
MODEL = """
INSERT INTO model_versions
    (model_id, version, stage, uri, sha256, size_bytes, media_type, framework, format, devices, tags, labels,
     config, comment, stream_id, task_id, attempt, parameters, metrics, inputs, published_ms)
VALUES
    ('digits-net', 3, 'staging', 'store:w1', 'w1', 9, '', 'torch', 'safetensors', '[]', '[]', '{}', '{}', '',
     's', 'train', 1, '{}', '{"accuracy": 0.9}', '{}', 5)
"""


@pytest.fixture
async def written(tables: str) -> str:
    async with opened_database(tables) as opened:
        await opened.transaction(lambda connection: write_artifacts(connection, SAVED, USED))
        await opened.transaction(lambda connection: connection.execute(MODEL))
    return tables


def nearest(rows: list[dict[str, object]]) -> list[tuple[object, ...]]:
    return [(row["level"], row["job_id"], row["via"]) for row in rows]


async def test_a_job_has_what_it_was_given_what_it_saved_and_the_models_of_that(written: str) -> None:
    async with opened_database(written) as opened:
        found = await lineage(opened, "train")
    assert [(row["use"], row["name"], row["source"]) for row in found.inputs] == [
        ("input", "digits", "s/prepare/digits@1")
    ]
    assert [(row["name"], row["sha256"]) for row in found.artifacts] == [("weights", "w1"), ("log", "l1")]
    assert [(row["model_id"], row["version"], row["metrics"]) for row in found.models] == [
        ("digits-net", 3, {"accuracy": 0.9})
    ]
    assert nearest(found.upstream) == [(1, "prepare", "digits")]
    assert nearest(found.downstream) == [(1, "evaluate", "weights")]
    assert found.reported == {}


async def test_a_lineage_is_followed_through_other_jobs_in_both_directions(written: str) -> None:
    async with opened_database(written) as opened:
        assert nearest((await lineage(opened, "evaluate")).upstream) == [
            (1, "prepare", "digits"),
            (1, "train", "weights"),
        ]
        assert nearest((await lineage(opened, "prepare")).downstream) == [
            (1, "evaluate", "digits"),
            (1, "train", "digits"),
            (2, "evaluate", "weights"),
        ]
        assert nearest((await lineage(opened, "other")).downstream) == [], "the use names train as its source"
        assert [row["model_id"] for row in (await lineage(opened, "other")).models] == ["digits-net"]


async def test_tasks_that_pass_bytes_in_a_circle_end_the_walk(written: str) -> None:
    async with opened_database(written) as opened:
        circle = (1, 9, "input", "weights", "s", "prepare", "store:w1", "w1", 9, "", "", None, None, 9)
        columns = ArtifactUseRows.table.columns
        await opened.transaction(lambda connection: copy(connection, "artifact_uses", columns, [circle]))
        found = await lineage(opened, "train")
    assert {row["job_id"] for row in found.upstream} == {"prepare", "train", "other"}


async def test_what_lineage_files_say_is_reported_and_can_be_searched(tables: str) -> None:
    train = HPARAMS.pack(HParams({"learning_rate": 0.1})).body
    newer = HPARAMS.pack(HParams({"learning_rate": 0.2, "network": "LeNet5"})).body
    pipeline = TEXT.pack(TextRows([json.dumps({"op_type": "BatchDataset"})])).body
    items = [
        ReportedItem(kind="hparams", tag="lineage/train", step=0, time_ms=1, body=train),
        ReportedItem(kind="hparams", tag="lineage/train", step=0, index=1, time_ms=2, body=newer),
        ReportedItem(kind="text", tag="lineage/dataset", step=0, time_ms=2, body=pipeline),
        ReportedItem(kind="text", tag="notes", step=0, time_ms=2, body=pipeline),
    ]
    message = SummaryItemsReported(stream="job", task_id="job", attempt=10_000, items=items)
    async with opened_database(tables) as opened:
        await write_jobs(opened, [GivenJob("job")])
        await opened.transaction(lambda connection: write_metrics(connection, rows_of([message])))
        found = await lineage(opened, "job")
        assert found.reported == {
            "train": {"learning_rate": 0.2, "network": "LeNet5"},
            "dataset": {"op_type": "BatchDataset"},
        }
        page = await search_jobs(opened, JobSearch("params.learning_rate == 0.2"))
        assert [job["params"] for job in page.jobs] == [{"learning_rate": 0.2, "network": "LeNet5"}]


async def test_an_unknown_job_has_no_lineage(tables: str) -> None:
    async with opened_database(tables) as opened:
        for job in ("nothing", "nul\0", "'; DROP TABLE artifacts; --"):
            assert await lineage(opened, job) == JobLineage(job)


def task(job_id: str, stream: str, last_step: int, status: str = "ACTIVE") -> GivenJob:
    fields: dict[str, Any] = {"stream": stream, "task_type": "t", "name": "", "state": "ended"}
    fields |= {"started_ms": 1, "ended_ms": 2}
    return GivenJob(job_id, fields, metrics={"loss": {1: {0: 1.0, last_step: 0.5}}}, status=status)


async def jobs(
    pool: ReadModelsPool, stream_id: str | None, text: str = "", limit: int = 20, offset: int = 0
) -> ChosenJobs:
    async with pool.read() as models:
        return await read_jobs(models, stream_id, text, limit, offset)


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def _five_jobs(module_tables: str) -> None:
    async with opened_database(module_tables) as opened:
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


async def test_jobs_are_those_of_a_stream_newest_first_without_deleted_ones(pool: ReadModelsPool) -> None:
    found = await jobs(pool, "a")
    assert [row["job_id"] for row in found.rows] == ["a.2", "a.1"]
    assert found.rows[0]["points"] == 2 and found.rows[0]["last_step"] == 20
    assert found.total == 2
    assert [row["job_id"] for row in (await jobs(pool, "folder")).rows] == ["folder"]


async def test_jobs_of_all_streams_are_filtered_and_paged(pool: ReadModelsPool) -> None:
    assert [row["job_id"] for row in (await jobs(pool, None)).rows] == ["b.1", "a.2", "a.1", "folder"]
    assert [row["job_id"] for row in (await jobs(pool, None, "A.")).rows] == ["a.2", "a.1"]
    second = await jobs(pool, None, limit=1, offset=1)
    assert [row["job_id"] for row in second.rows] == ["a.2"] and second.total == 4
