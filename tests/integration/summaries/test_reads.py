"""Lists of jobs, tags and curves from rows in Postgres."""

import math
import random
from functools import partial

import numpy as np
import pytest

from tests.integration.projections.harness import query
from tests.integration.summaries.given import Rows, points
from trackside.projections.summaries import long_curves
from trackside.projections.summaries.errors import SummaryReadRefused
from trackside.projections.summaries.jobs import list_jobs, read_files, read_job
from trackside.projections.summaries.points import PointRange
from trackside.projections.summaries.scalars import ScalarCurve, ScalarQuery, read_scalars
from trackside.projections.summaries.tags import read_plugin_tags, read_tags


async def curves(rows: Rows, asked: ScalarQuery) -> list[ScalarCurve]:
    return await rows.read(lambda connection: read_scalars(connection, asked))


async def refusal(rows: Rows, asked: ScalarQuery) -> SummaryReadRefused:
    with pytest.raises(SummaryReadRefused) as refused:
        await curves(rows, asked)
    return refused.value


async def test_jobs_are_listed_newest_first_by_cursor_and_by_page_number(rows: Rows) -> None:
    """S20."""
    for number in range(25):
        await rows.write(points(f"j{number}", "loss", [0.5], first=number // 2))  # pairs of equal times
    first = await rows.read(list_jobs)
    assert [job.job_id for job in first.jobs[:3]] == ["j24", "j22", "j23"]
    assert (len(first.jobs), first.total) == (10, 25)
    second = await rows.read(lambda c: list_jobs(c, cursor=first.next_cursor))
    assert second == await rows.read(lambda c: list_jobs(c, page=1))
    last = await rows.read(lambda c: list_jobs(c, cursor=second.next_cursor))
    assert (len(last.jobs), last.next_cursor) == (5, None)
    assert len({job.job_id for page in (first, second, last) for job in page.jobs}) == 25


async def test_directories_are_jobs_before_they_have_values_and_deleted_ones_are_hidden(rows: Rows) -> None:
    """S2, S13: what the list has can be read, and what can't be listed is not counted."""
    await rows.directory("summary-1", "runs/a", changed_ms=5_000)
    await rows.directory("summary-2", "runs/b", changed_ms=1)
    await rows.directory("summary-3", "runs/c", changed_ms=2, status="DELETED")
    await rows.directory("summary-4", "", changed_ms=3, status="DELETED", task="j")
    await rows.write(points("summary-2", "loss", [1.0], first=7, stream="summary-2"))
    await rows.write(points("j", "loss", [1.0]), points("k", "loss", [1.0], first=1))
    page = await rows.read(list_jobs)
    assert [job.job_id for job in page.jobs] == ["summary-2", "summary-1", "k"]
    assert page.total == 3
    for job in page.jobs:
        assert await rows.read(partial(read_job, job_id=job.job_id)) == job
        assert len(await curves(rows, ScalarQuery([job.job_id]))) == (1 if job.points else 0)
    first = await rows.read(lambda c: list_jobs(c, limit=1))
    rest = await rows.read(lambda c: list_jobs(c, cursor=first.next_cursor, limit=2))
    assert [job.job_id for job in rest.jobs] == ["summary-1", "k"]
    every = await rows.read(lambda c: list_jobs(c, deleted=True))
    assert (len(every.jobs), every.total) == (5, 5)
    assert (await rows.read(lambda c: read_job(c, "j"))).status == "DELETED"
    files = await rows.read(lambda c: read_files(c, "summary-2"))
    assert [(file.file, file.end_byte, file.code) for file in files] == [("f.1", 100, "bad_crc")]


async def test_a_new_job_on_the_first_page_shifts_no_later_one(rows: Rows) -> None:
    for number in range(4):
        await rows.write(points(f"j{number}", "loss", [0.5], first=number))
    first = await rows.read(lambda c: list_jobs(c, limit=2))
    await rows.write(points("new", "loss", [0.5], first=9))
    second = await rows.read(lambda c: list_jobs(c, limit=2, cursor=first.next_cursor))
    assert [job.job_id for job in first.jobs + second.jobs] == ["j3", "j2", "j1", "j0"]


async def test_a_page_out_of_its_limits_is_refused(rows: Rows) -> None:
    """S20."""
    for limit, cursor, page, path in (
        (0, None, 0, "limit"),
        (1_000, None, 0, "limit"),
        (10, None, -1, "page"),
        (10, "1", 0, "cursor"),
        (10, f"{2**63}.a", 0, "cursor"),
        (10, "1.\0", 0, "cursor"),
        (10, "1.a", 1, "cursor"),
    ):
        with pytest.raises(SummaryReadRefused) as refused:
            await rows.read(lambda c: list_jobs(c, limit, cursor, page))  # noqa: B023 - runs at once
        assert (refused.value.code, refused.value.path) == ("bad_query", path)


async def test_a_job_has_its_counts_and_tags_by_kind(rows: Rows) -> None:
    """S12."""
    await rows.write(points("j", "loss", [1.0, 0.5]), points("j", "acc", [0.1], attempt=2))
    await rows.write(points("j", "system/cpu", [5.0], first=99))
    job = await rows.read(lambda c: read_job(c, "j"))
    assert (job.points, job.items, job.last_step) == (4, 0, 1)
    tags = await rows.read(lambda c: read_tags(c, "j"))
    assert [(tag.kind, tag.tag, tag.points, tag.last_value) for tag in tags] == [
        ("scalar", "acc", 1, 0.1),
        ("scalar", "loss", 2, 0.5),
        ("scalar", "system/cpu", 1, 5.0),
    ]
    known = await rows.read(lambda c: read_plugin_tags(c, "j", "scalar"))
    assert known is not None
    assert known.tags == ["acc", "loss", "system/cpu"]
    unknown = await rows.read(lambda c: read_plugin_tags(c, "j", "nothing"))
    assert unknown is not None
    assert unknown.tags == []


async def test_an_unknown_job_or_tag_is_said_with_what_is_near(rows: Rows) -> None:
    """S5, S11."""
    await rows.write(points("j", "loss", [1.0]), points("k", "acc", [1.0]))
    assert (await refusal(rows, ScalarQuery(["nobody"]))).code == "unknown_job"
    assert (await refusal(rows, ScalarQuery(["j", "nobody"], ["loss"]))).code == "unknown_job"
    assert (await refusal(rows, ScalarQuery(["j\0"], ["loss"]))).code == "unknown_job"
    assert (await refusal(rows, ScalarQuery(["j"], ["\ud800"]))).code == "unknown_tag"
    refused = await refusal(rows, ScalarQuery(["j"], ["los"]))
    assert (refused.code, refused.hint) == ("unknown_tag", "did you mean 'loss'?")
    only_one = await curves(rows, ScalarQuery(["j", "k"], ["loss", "acc"]))
    assert [(curve.job_id, curve.tag) for curve in only_one] == [("j", "loss"), ("k", "acc")]


async def test_points_of_a_curve_are_those_that_the_view_counts(rows: Rows, database: str) -> None:
    """S17."""
    draw = random.Random(17)
    for job in range(6):
        directory = job % 2 == 0
        stream = f"j{job}" if directory else "s"
        for attempt in range(1, 5):
            if not directory:
                await rows.attempt(f"j{job}", stream, attempt, draw.choice([None, 2, 5, 8]))
            for tag in draw.sample(["loss", "acc", "system/cpu"], 2):
                values = [draw.random() for _ in range(draw.randint(1, 12))]
                made = points(f"j{job}", tag, values, draw.randint(0, 6), attempt, stream)
                await rows.write(made)
    jobs = [f"j{job}" for job in range(6)]
    for superseded in (False, True):
        found = await curves(rows, ScalarQuery(jobs, superseded=superseded))
        shown = sorted(
            (curve.job_id, curve.tag, int(step), float(value))
            for curve in found
            for step, value in zip(curve.points.steps, curve.points.values, strict=True)
        )
        statement = "SELECT task_id, tag, step, value FROM dashboards.metrics WHERE counts OR $1 ORDER BY 1"
        assert shown == sorted(await query(database, statement, superseded))


async def test_a_range_of_steps_or_times_is_read_on_each_axis(rows: Rows) -> None:
    """S21."""
    await rows.write(points("j", "loss", [step / 10 for step in range(100)], first=-50))
    (steps,) = await curves(rows, ScalarQuery(["j"], ["loss"], PointRange(first_step=-3, last_step=4)))
    assert list(steps.positions) == list(range(-3, 5))
    (wall,) = await curves(
        rows, ScalarQuery(["j"], ["loss"], PointRange(first_ms=2_000, last_ms=3_999), axis="wall")
    )
    assert list(wall.positions) == [2_000, 3_000]
    (relative,) = await curves(
        rows, ScalarQuery(["j"], ["loss"], PointRange(first_step=0, last_step=1), axis="relative")
    )
    assert list(relative.positions) == [50.0, 51.0]


async def test_a_long_curve_is_thinned_with_its_extremes_and_whole_on_request(rows: Rows) -> None:
    values = [math.sin(step) for step in range(5_000)]
    values[2_345], values[3_456] = 100.0, -100.0
    await rows.write(points("j", "loss", values))
    (thinned,) = await curves(rows, ScalarQuery(["j"], limit=100))
    assert (len(thinned.positions) <= 100, thinned.total) == (True, 5_000)
    assert {0, 2_345, 3_456, 4_999} <= set(thinned.positions)
    (raw,) = await curves(rows, ScalarQuery(["j"], limit=None, most=5_000))
    assert list(raw.points.values) == values
    refused = await refusal(rows, ScalarQuery(["j"], limit=None, most=4_999))
    assert (refused.code, refused.path) == ("too_many_values", "limit")


async def test_a_curve_read_in_parts_is_the_one_read_at_once(
    rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S16."""
    draw = random.Random(16)
    steps = sorted(draw.sample(range(100_000), 3_000))
    values = [draw.choice([None, draw.gauss(0, 1), draw.gauss(0, 9)]) for _ in steps]
    message = points("j", "loss", values)
    series = message.series[0].model_copy(update={"steps": steps})
    await rows.write(message.model_copy(update={"series": [series]}))
    for limit in (1, 4, 50, 1_000, 2_500):
        asked = ScalarQuery(["j"], limit=limit)
        (at_once,) = await curves(rows, asked)
        with monkeypatch.context() as patch:
            patch.setattr(long_curves, "LONG_POINTS", 100)
            patch.setattr(long_curves, "PART_POINTS", 400)
            (in_parts,) = await curves(rows, asked)
        assert in_parts.points.left_out, "it was read in parts"
        assert in_parts.total == at_once.total == 3_000
        assert in_parts.points.steps.tolist() == at_once.points.steps.tolist()
        np.testing.assert_equal(in_parts.points.values, at_once.points.values)
