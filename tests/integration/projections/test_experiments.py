"""Streams of all kinds in one list, as a web page filters and sorts them; what runs, and what failed."""

from collections.abc import AsyncIterator
from datetime import datetime

import pytest

from tests.aggregates.registered import repeats_registered
from tests.integration.projections.harness import TOPICS, query, write_rows
from tests.unit.projections.given import write_small_history
from trackside.aggregates.registry import AGGREGATES
from trackside.eventlog.memory import MemoryLog
from trackside.projections.experiments import (
    SORT_KEYS,
    BadFilterError,
    ExperimentFilter,
    count_experiments,
    count_tags,
    newest_failures,
    read_experiments,
    read_experiments_page,
    read_listed,
    running_now,
)
from trackside.projections.migrate import migrate
from trackside.projections.postgres import database as opened_database
from trackside.projections.read_pool import ReadModelsPool

LISTED = ["id", "name", "status", "started_at", "ended_at", "duration_s"]
LISTED += ["ended", "total", "best", "tuner", "runs"]


@pytest.fixture
async def pool(database: str) -> AsyncIterator[ReadModelsPool]:
    """Yields a pool of connections to the rows of three searches and four batches, without labels."""
    log = MemoryLog()
    await write_small_history(log, TOPICS)
    await write_rows(log, database)
    await query(database, "DELETE FROM stream_labels")
    opened = ReadModelsPool(database)
    yield opened
    opened.close()


async def ids(pool: ReadModelsPool, wanted: ExperimentFilter) -> list[str]:
    """Returns the ids of a page; checks its count, and that both are the same when read together."""
    async with pool.read() as models:
        rows = await read_experiments(models, wanted)
        count = await count_experiments(models, wanted)
        page = await read_experiments_page(models, wanted)
    assert (page.rows, page.total) == (rows, count)
    assert count == len(rows) or len(rows) == wanted.limit or wanted.offset
    return [row["id"] for row in rows]


async def test_streams_of_all_kinds_are_one_list_with_the_same_columns(pool: ReadModelsPool) -> None:
    async with pool.read() as models:
        rows = await read_experiments(models, ExperimentFilter(sort="id", descending=False))
    assert [(row["kind"], row["id"], row["status"]) for row in rows] == [
        ("batch", "going", "RUNNING"),
        ("batch", "halted", "STOPPED"),
        ("search", "one", "DONE"),
        ("search", "open", "NO_MORE_TRIAL"),
        ("batch", "serving", "RUNNING"),
        ("batch", "tasks", "DONE"),
        ("search", "two", "DONE"),
    ]
    assert all(list(row) == ["kind", *LISTED, "tags", "note", "archived"] for row in rows)
    two = rows[-1]
    assert (two["name"], two["ended"], two["total"], two["tuner"], two["runs"]) == (
        "three",
        4,
        4,
        "tpe",
        "digits",
    )
    assert isinstance(two["started_at"], datetime) and isinstance(two["best"], float)


async def test_the_list_is_filtered_by_kind_status_and_a_part_of_a_name_or_an_id(
    pool: ReadModelsPool,
) -> None:
    assert set(await ids(pool, ExperimentFilter(kinds=("search",)))) == {"one", "two", "open"}
    assert set(await ids(pool, ExperimentFilter(statuses=("RUNNING", "STOPPED")))) == {
        "going",
        "halted",
        "serving",
    }
    assert set(await ids(pool, ExperimentFilter(text="THREE"))) == {"one", "two", "open"}
    assert await ids(pool, ExperimentFilter(text="hal")) == ["halted"]
    assert await ids(pool, ExperimentFilter(text="%")) == []
    assert await ids(pool, ExperimentFilter(text="three", kinds=("batch",))) == []


async def test_archived_streams_are_left_out_and_tags_are_found(pool: ReadModelsPool, database: str) -> None:
    for stream, tags, archived in (
        ("one", ["night", "large"], False),
        ("two", ["night"], True),
        ("tasks", ["large"], False),
    ):
        await query(
            database,
            "INSERT INTO stream_labels VALUES ($1, 'search', $2, 'a note', $3, 1000)",
            stream,
            tags,
            archived,
        )
    assert "two" not in await ids(pool, ExperimentFilter())
    assert len(await ids(pool, ExperimentFilter(archived=True))) == 7
    assert await ids(pool, ExperimentFilter(tags=("night",))) == ["one"]
    assert set(await ids(pool, ExperimentFilter(tags=("night",), archived=True))) == {"one", "two"}
    assert await ids(pool, ExperimentFilter(tags=("night", "large"), archived=True)) == ["one"]
    async with pool.read() as models:
        row = (await read_listed(models, ["two"]))["two"]
        assert (row["tags"], row["note"], row["archived"]) == (["night"], "a note", True)
        row = (await read_listed(models, ["going"]))["going"]
        assert (row["tags"], row["note"], row["archived"]) == ([], "", False)
        assert await count_tags(models) == {"large": 2, "night": 2}


async def test_pages_of_every_order_have_each_stream_once(pool: ReadModelsPool) -> None:
    every = set(await ids(pool, ExperimentFilter()))
    for sort in SORT_KEYS:
        for descending in (True, False):
            whole = await ids(pool, ExperimentFilter(sort=sort, descending=descending))
            pages = [
                await ids(pool, ExperimentFilter(sort=sort, descending=descending, limit=3, offset=offset))
                for offset in (0, 3, 6)
            ]
            assert [each for page in pages for each in page] == whole and set(whole) == every


async def test_streams_without_a_value_come_last_in_both_orders(pool: ReadModelsPool) -> None:
    for descending in (True, False):
        assert (await ids(pool, ExperimentFilter(sort="ended", descending=descending)))[-3:] != []
        found = await ids(pool, ExperimentFilter(sort="best", descending=descending))
        assert set(found[:3]) == {"one", "two", "open"}


def test_an_unknown_name_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(BadFilterError, match="'size': expected one of started, ended"):
        ExperimentFilter(sort="size")
    with pytest.raises(BadFilterError, match=r"'sweep': expected one of .*search"):
        ExperimentFilter(kinds=("sweep",))


async def test_streams_are_listed_by_id(pool: ReadModelsPool) -> None:
    async with pool.read() as models:
        found = await read_listed(models, ["one", "tasks", "no-such-stream"])
        assert {name: row["kind"] for name, row in found.items()} == {"one": "search", "tasks": "batch"}
        assert await read_listed(models, []) == {}


async def test_what_has_open_tasks_runs_now(pool: ReadModelsPool) -> None:
    async with pool.read() as models:
        rows = {row["id"]: row for row in await running_now(models)}
    assert set(rows) == {"going", "serving"}
    assert rows["serving"]["services"] >= 1 and rows["serving"]["running_tasks"] >= 1
    assert rows["going"]["queued_tasks"] + rows["going"]["running_tasks"] >= 1


async def test_the_newest_failures_say_what_failed_and_why(pool: ReadModelsPool) -> None:
    async with pool.read() as models:
        rows = await newest_failures(models, 50)
        assert len(await newest_failures(models, 1)) == 1
    failed = {(row["stream_id"], row["task_id"], row["attempt"]): row for row in rows}
    mine = failed["two", "two.2", 1]
    assert (mine["ending"], mine["error_type"], mine["error_message"]) == (
        "failed",
        "ValueError",
        "bad\ufffdvalue",
    )
    assert (mine["kind"], mine["name"], mine["trial"]) == ("search", "three", 2)
    assert failed["one", "one.1", 1]["ending"] == "lost"
    assert not {row["ending"] for row in rows} & {"finished", "cancelled", "preempted"}
    assert [row["ended_at"] for row in rows] == sorted((row["ended_at"] for row in rows), reverse=True)


async def test_every_kind_has_a_listing_also_one_that_is_added(database: str) -> None:
    with repeats_registered():
        async with opened_database(database) as opened:
            await opened.transaction(migrate)
        await query(
            database,
            "INSERT INTO repeats VALUES ('again', 'thrice', 'RUNNING', 3, 1, 1, 1000, NULL, '{}')",
        )
        pool = ReadModelsPool(database)
        async with pool.read() as models:
            for aggregate in AGGREGATES.types:
                statement = await models.connection.prepare(aggregate.view.listing)
                assert [each.name for each in statement.get_attributes()] == LISTED, aggregate.kind
            (row,) = await read_experiments(models, ExperimentFilter(text="THRICE"))
        pool.close()
    assert (row["kind"], row["id"], row["ended"], row["total"]) == ("repeat", "again", 1, 3)
