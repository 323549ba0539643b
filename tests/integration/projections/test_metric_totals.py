"""What is counted of each series and job while points arrive, beside a count of all rows at the end."""

import random
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.integration.projections.harness import query
from trackside.contracts.summaries import (
    ItemArtifact,
    MetricPointsReported,
    ReportedItem,
    Series,
    SummariesPurged,
    SummaryItemsReported,
)
from trackside.projections.metric_writes import count_metrics, write_metrics
from trackside.projections.metrics import Reported, rows_of
from trackside.projections.migrate import migrate
from trackside.projections.postgres import Connection
from trackside.projections.postgres import database as opened_database

COUNTED = ("SELECT * FROM metric_totals ORDER BY series", "SELECT * FROM summary_briefs ORDER BY job_id")
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
    """Returns a record of texts and pictures."""
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
    """Yields what each transaction writes."""
    kinds: list[Callable[[random.Random], Reported]] = [points, points, points, items, items, purged]
    for _ in range(12):
        yield [draw.choice(kinds)(draw) for _ in range(draw.randint(1, 4))]


@pytest.mark.parametrize("seed", range(3))
async def test_totals_of_batches_are_those_of_all_rows(database: str, seed: int) -> None:
    draw = random.Random(seed)
    async with opened_database(database) as opened:
        await opened.transaction(migrate)
        for batch in batches(draw):
            await opened.transaction(partial(write_metrics, rows=rows_of(batch)))
        kept = [await query(database, counted) for counted in COUNTED]

        async def count(connection: Connection) -> None:
            await connection.execute("TRUNCATE metric_totals, summary_briefs")
            await count_metrics(connection)

        await opened.transaction(count)
        assert [await query(database, counted) for counted in COUNTED] == kept
    assert kept[0]
    assert kept[1]


async def test_the_newest_session_of_a_directory_counts_from_its_first_step_on(database: str) -> None:
    """S17."""

    def session(number: int, tag: str, first: int, last: int) -> MetricPointsReported:
        steps = list(range(first, last))
        count = len(steps)
        series = Series(tag=tag, steps=steps, times_ms=[1_000] * count, values=[float(number)] * count)
        job = "summary-00"
        return MetricPointsReported(stream=job, task_id=job, attempt=number, series=[series])

    found = [session(10_000, "loss", 0, 6), session(10_001, "loss", 4, 8), session(20_000, "loss", 7, 9)]
    rows = rows_of([*found, session(10_000, "accuracy", 0, 3)])
    async with opened_database(database) as opened:
        await opened.transaction(migrate)
        await opened.transaction(lambda connection: write_metrics(connection, rows))
    counted = "SELECT step, value FROM dashboards.metrics WHERE counts AND tag = '{}' ORDER BY step"
    steps = [(step, 10_000.0) for step in range(4)] + [(step, 10_001.0) for step in range(4, 7)]
    assert await query(database, counted.format("loss")) == [*steps, (7, 20_000.0), (8, 20_000.0)]
    assert len(await query(database, counted.format("accuracy"))) == 3


async def test_a_point_says_what_it_is_if_it_is_not_finite(database: str) -> None:
    values = [1.0, None, None, None, None]
    said = {1: "nan", 2: "inf", 3: "-inf"}
    series = Series.model_validate(
        {"tag": "loss", "steps": range(5), "times_ms": [0] * 5, "values": values, "non_finite": said}
    )
    rows = rows_of([MetricPointsReported(stream="s", task_id="s.0", attempt=1, series=[series])])
    async with opened_database(database) as opened:
        await opened.transaction(migrate)
        await opened.transaction(lambda connection: write_metrics(connection, rows))
    found = await query(database, "SELECT value, non_finite FROM dashboards.metrics ORDER BY step")
    assert found == [(1.0, None), (None, "nan"), (None, "inf"), (None, "-inf"), (None, None)]
