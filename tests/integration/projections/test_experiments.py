"""Streams of all kinds in one list, as a web page filters and sorts them; what runs, and what failed."""

from collections.abc import AsyncIterator, Iterator
from datetime import datetime

import pytest

from tests.aggregates.registered import repeats_registered
from tests.integration.projections.harness import Written, insert, query
from trackside.aggregates.registry import AGGREGATES
from trackside.projections.database.postgres import database as opened_database
from trackside.projections.pages.experiments import (
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
from trackside.projections.reading.read_pool import ReadModelsPool
from trackside.projections.writing.migrate import migrate

LISTED = ["id", "name", "status", "started_at", "ended_at", "duration_s"]
LISTED += ["ended", "total", "best", "tuner", "runs"]


@pytest.fixture(scope="module")
def rows(kept: Written) -> Iterator[str]:
    """Yields a database with the rows of three searches and four batches."""
    with kept.copied() as copied:
        yield copied.dsn


@pytest.fixture
async def pool(rows: str) -> AsyncIterator[ReadModelsPool]:
    """Yields a pool of connections to them; they have no labels."""
    await query(rows, "DELETE FROM stream_labels")
    opened = ReadModelsPool(rows)
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
    assert [two[name] for name in ("name", "ended", "total", "tuner", "runs")] == [
        "three",
        4,
        4,
        "tpe",
        "digits",
    ]
    assert isinstance(two["started_at"], datetime) and isinstance(two["best"], float)


async def test_the_list_is_filtered_by_kind_status_and_a_part_of_a_name_or_an_id(
    pool: ReadModelsPool,
) -> None:
    for wanted, expected in (
        (ExperimentFilter(kinds=("search",)), ["one", "open", "two"]),
        (ExperimentFilter(statuses=("RUNNING", "STOPPED")), ["going", "halted", "serving"]),
        (ExperimentFilter(text="THREE"), ["one", "open", "two"]),
        (ExperimentFilter(text="hal"), ["halted"]),
        (ExperimentFilter(text="%"), []),
        (ExperimentFilter(text="three", kinds=("batch",)), []),
    ):
        assert sorted(await ids(pool, wanted)) == expected


async def test_archived_streams_are_left_out_and_tags_are_found(pool: ReadModelsPool, rows: str) -> None:
    labels = [("one", ["night", "large"], False), ("two", ["night"], True), ("tasks", ["large"], False)]
    await insert(rows, "INSERT INTO stream_labels VALUES ($1, 'search', $2, 'a note', $3, 1000)", labels)
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
        assert set(await read_listed(models, ["one", "no-such-stream"])) == {"one"}
        assert await read_listed(models, []) == {}
        assert await count_tags(models) == {"large": 2, "night": 2}


async def test_pages_of_every_order_have_each_stream_once(pool: ReadModelsPool) -> None:
    every = set(await ids(pool, ExperimentFilter()))
    for at, sort in enumerate(SORT_KEYS):
        for descending in (True, False) if sort == "best" else (at % 2 == 0,):
            whole = await ids(pool, ExperimentFilter(sort=sort, descending=descending))
            pages = [
                await ids(pool, ExperimentFilter(sort=sort, descending=descending, limit=3, offset=offset))
                for offset in (0, 3, 6)
            ]
            assert [each for page in pages for each in page] == whole and set(whole) == every
            if sort == "best":
                assert set(whole[:3]) == {"one", "two", "open"}, "those without a value come last"


def test_an_unknown_name_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(BadFilterError, match="'size': expected one of started, ended"):
        ExperimentFilter(sort="size")
    with pytest.raises(BadFilterError, match=r"'sweep': expected one of .*search"):
        ExperimentFilter(kinds=("sweep",))


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
    said = [mine[name] for name in ("ending", "error_type", "error_message", "kind", "name", "trial")]
    assert said == ["failed", "ValueError", "bad\ufffdvalue", "search", "three", 2]
    assert failed["one", "one.1", 1]["ending"] == "lost"
    assert not {row["ending"] for row in rows} & {"finished", "cancelled", "preempted"}
    assert [row["ended_at"] for row in rows] == sorted((row["ended_at"] for row in rows), reverse=True)


async def test_every_kind_has_a_listing_also_one_that_is_added(tables: str) -> None:
    with repeats_registered():
        async with opened_database(tables) as opened:
            await opened.transaction(migrate)
        values = "('again', 'thrice', 'RUNNING', 3, 1, 1, 1000, NULL, '{}')"
        await query(tables, f"INSERT INTO repeats VALUES {values}")  # noqa: S608
        pool = ReadModelsPool(tables)
        async with pool.read() as models:
            for aggregate in AGGREGATES.types:
                statement = await models.connection.prepare(aggregate.view.listing)
                assert [each.name for each in statement.get_attributes()] == LISTED, aggregate.kind
            (found,) = await read_experiments(models, ExperimentFilter(text="THRICE"))
        pool.close()
    assert (found["kind"], found["id"], found["ended"], found["total"]) == ("repeat", "again", 1, 3)
