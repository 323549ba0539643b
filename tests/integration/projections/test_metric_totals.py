"""What is counted of each series and job while points arrive, and which points count."""

import random
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.integration.projections.harness import insert, query, write_points
from tests.integration.summaries.given import ATTEMPT
from tests.integration.summaries.given import points as reported
from trackside.contracts.tasks.summaries import (
    ItemArtifact,
    MetricPointsReported,
    ReportedItem,
    Series,
    SummariesPurged,
    SummaryItemsReported,
)
from trackside.projections.database.postgres import Connection
from trackside.projections.database.postgres import database as opened_database
from trackside.projections.tables.metrics import Reported, rows_of
from trackside.projections.writing.metric_writes import count_metrics, write_metrics

COUNTED = ("SELECT * FROM metric_totals ORDER BY series", "SELECT * FROM summary_briefs ORDER BY job_id")
SERIES = "INSERT INTO trackside.metric_series VALUES ($1, 's', $2, $3, $4)"
POINT = "INSERT INTO trackside.metric_points VALUES ($1, $2, 0, 0.5)"
NUMBERS = [0.1, 0.2, 0.3, -1e300, 1e300, 5e-324, 1 / 3, 1e-7, 123456.789, None]


def points(draw: random.Random) -> MetricPointsReported:
    """Returns a record whose steps may be those of an earlier one, and whose values may not be finite."""
    tags = draw.sample(["loss", "accuracy", "system/cpu"], draw.randint(1, 3))
    series = [_series(tag, draw) for tag in tags]
    job, attempt = f"s.{draw.randint(0, 1)}", draw.randint(1, 3)
    return MetricPointsReported(stream="s", task_id=job, attempt=attempt, series=series)


def _series(tag: str, draw: random.Random) -> Series:
    count = draw.randint(0, 20)
    values = [draw.choice(NUMBERS) for _ in range(count)]
    return Series(
        tag=tag,
        steps=[draw.randint(-5, 40) for _ in range(count)],
        times_ms=[draw.randint(0, 10_000) for _ in range(count)],
        values=values,
        non_finite={
            at: draw.choice(["nan", "inf", "-inf"]) for at, value in enumerate(values) if value is None
        },
    )


def items(draw: random.Random) -> SummaryItemsReported:
    found = [
        ReportedItem(
            kind=draw.choice(["text", "image"]),
            tag="loss",
            step=draw.randint(0, 5),
            time_ms=draw.randint(0, 10_000),
            index=draw.randint(0, 1),
            body={"text": "a\0b"},
            artifact=draw.choice([None, ItemArtifact(sha256="5c" * 32, size_bytes=3)]),
        )
        for _ in range(draw.randint(1, 5))
    ]
    return SummaryItemsReported(stream="s", task_id="s.0", attempt=1, items=found)


def purged(draw: random.Random) -> SummariesPurged:
    """Returns that what was written of a job is to be removed."""
    return SummariesPurged(stream="s", task_id=f"s.{draw.randint(0, 1)}")


def batches(draw: random.Random) -> Iterator[list[Reported]]:
    kinds: list[Callable[[random.Random], Reported]] = [points, points, points, items, items, purged]
    for _ in range(12):
        yield [draw.choice(kinds)(draw) for _ in range(draw.randint(1, 4))]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
async def test_totals_of_batches_are_those_of_all_rows(tables: str, seed: int) -> None:
    draw = random.Random(seed)
    async with opened_database(tables) as opened:
        for batch in batches(draw):
            await opened.transaction(partial(write_metrics, rows=rows_of(batch)))
        kept = [await query(tables, counted) for counted in COUNTED]

        async def count(connection: Connection) -> None:
            await connection.execute("TRUNCATE metric_totals, summary_briefs")
            await count_metrics(connection)

        await opened.transaction(count)
        assert [await query(tables, counted) for counted in COUNTED] == kept
    assert kept[0]
    assert kept[1]


async def test_the_newest_session_of_a_directory_counts_from_its_first_step_on(tables: str) -> None:
    """S17."""

    def session(number: int, tag: str, first: int, last: int) -> MetricPointsReported:
        values = [float(number)] * (last - first)
        return reported("summary-00", tag, values, first, number, "summary-00")

    found = [session(10_000, "loss", 0, 6), session(10_001, "loss", 4, 8), session(20_000, "loss", 7, 9)]
    await write_points(tables, *found, session(10_000, "accuracy", 0, 3))
    counted = "SELECT step, value FROM dashboards.metrics WHERE counts AND tag = '{}' ORDER BY step"
    steps = [(step, 10_000.0) for step in range(4)] + [(step, 10_001.0) for step in range(4, 7)]
    assert await query(tables, counted.format("loss")) == [*steps, (7, 20_000.0), (8, 20_000.0)]
    assert len(await query(tables, counted.format("accuracy"))) == 3


@pytest.mark.parametrize("order", [(1, 2), (2, 1)], ids=["in order", "a first attempt is late"])
async def test_of_the_attempts_that_have_a_tag_the_newest_is_marked_whichever_reports_first(
    tables: str, order: tuple[int, int]
) -> None:
    async with opened_database(tables) as opened:
        for attempt in order:
            rows = rows_of(
                [reported("s.0", tag, [0.5], attempt=attempt) for tag in ("loss", f"only-{attempt}")]
            )
            await opened.transaction(partial(write_metrics, rows=rows))
    marked = await query(tables, "SELECT tag, attempt FROM metric_totals WHERE newest ORDER BY tag")
    assert marked == [("loss", 2), ("only-1", 1), ("only-2", 2)]


async def test_a_point_says_what_it_is_if_it_is_not_finite(tables: str) -> None:
    values = [1.0, None, None, None, None]
    said = {1: "nan", 2: "inf", 3: "-inf"}
    series = Series.model_validate(
        {"tag": "loss", "steps": range(5), "times_ms": [0] * 5, "values": values, "non_finite": said}
    )
    await write_points(tables, MetricPointsReported(stream="s", task_id="s.0", attempt=1, series=[series]))
    found = await query(tables, "SELECT value, non_finite FROM dashboards.metrics ORDER BY step")
    assert found == [(1.0, None), (None, "nan"), (None, "inf"), (None, "-inf"), (None, None)]


async def test_points_count_below_the_step_that_a_later_attempt_resumed_at(tables: str) -> None:
    resumed_steps = {("resumed", 2): 2}
    attempts = [(task, attempt) for task in ("resumed", "anew", "silent") for attempt in (1, 2)]
    await insert(tables, ATTEMPT, [(task, "s", at, resumed_steps.get((task, at))) for task, at in attempts])
    series = [("resumed", 1, "loss"), ("anew", 1, "loss"), ("silent", 1, "loss"), ("anew", 2, "loss")]
    series += [("silent", 2, "system/memory_bytes"), ("resumed", 1, "system/memory_bytes")]
    await insert(tables, SERIES, [(number, *given) for number, given in enumerate(series)])
    await insert(tables, POINT, [(number, step) for number in range(len(series)) for step in range(4)])
    counted = await query(
        tables,
        "SELECT task_id, attempt, tag, count(*) FROM dashboards.metrics WHERE counts "
        "GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
    )
    assert counted == [
        ("anew", 2, "loss", 4),
        ("resumed", 1, "loss", 2),
        ("resumed", 1, "system/memory_bytes", 4),
        ("silent", 1, "loss", 4),
        ("silent", 2, "system/memory_bytes", 4),
    ]
