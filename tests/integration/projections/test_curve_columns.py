"""Curves and the timeline of devices as columns, and curves for dashboards, thinned in SQL."""

import math
from random import Random

import numpy as np
import pytest

from tests.integration.projections.harness import insert, query
from tests.integration.summaries.given import given_tables, points
from trackside.projections.pages import curve_columns as module
from trackside.projections.pages.curve_columns import curve_columns
from trackside.projections.pages.timeline_columns import timeline_columns
from trackside.projections.reading.columns import ChartColumns
from trackside.projections.reading.read_pool import ReadModelsPool
from trackside.projections.summaries.points import PointRange

PLACEMENT = """
INSERT INTO trackside.placements (
    task_id, stream_id, attempt, placement, worker_id, device_ids, assigned_ms, ended_ms, ending
) VALUES ($1, $2, 1, 1, $3, $4, $5, $6, $7)
"""


async def curves_of(
    pool: ReadModelsPool, *tasks: str, limit: int = 2_000, within: PointRange = module.EVERYTHING
) -> dict[str, ChartColumns]:
    async with pool.read() as models:
        return await curve_columns(models, tasks, "loss", limit, within)


async def test_each_task_with_the_tag_has_its_curve(pool: ReadModelsPool, module_tables: str) -> None:
    async with given_tables(module_tables) as rows:
        await rows.write(points("a", "loss", [3.0, 2.0, None]), points("b", "loss", [1.0], first=7))
        await rows.write(points("a", "other", [9.0]))
    found = await curves_of(pool, "b", "a", "a", "no-such")
    assert list(found) == ["b", "a"]
    assert found["b"].arrays["step"].tolist() == [7] and found["b"].arrays["value"].tolist() == [1.0]
    assert np.array_equal(found["a"].arrays["value"], [3.0, 2.0, math.nan], equal_nan=True)
    assert (found["a"].total, found["a"].sampled) == (3, False)


async def test_a_long_curve_is_thinned_and_keeps_its_peak(pool: ReadModelsPool, module_tables: str) -> None:
    values = [float(at % 7) for at in range(10_000)]
    values[5_003] = 1_000.0
    async with given_tables(module_tables) as rows:
        await rows.write(points("a", "loss", values))
    found = (await curves_of(pool, "a", limit=100))["a"]
    assert found.rows <= 100 and found.total == 10_000 and not found.sampled
    assert found.arrays["value"].max() == 1_000.0
    assert found.arrays["step"][[0, -1]].tolist() == [0, 9_999]


async def test_a_very_long_curve_is_sampled_and_is_exact_where_one_zooms_in(
    pool: ReadModelsPool, module_tables: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EXACT_POINTS", 1_000)
    monkeypatch.setattr(module, "SAMPLED_PARTS", 100)
    values = [math.sin(at / 1_000) for at in range(20_000)]
    async with given_tables(module_tables) as rows:
        await rows.write(points("a", "loss", values))
    found = (await curves_of(pool, "a", limit=400))["a"]
    assert found.sampled and found.total == 20_000
    assert 100 <= found.rows <= 400
    steps, shown = found.arrays["step"], found.arrays["value"]
    assert steps[[0, -1]].tolist() == [0, 19_999] and bool((np.diff(steps) > 0).all())
    assert np.array_equal(shown, np.array(values)[steps])
    near = (await curves_of(pool, "a", within=PointRange(5_000, 5_099)))["a"]
    assert not near.sampled and near.arrays["step"].tolist() == list(range(5_000, 5_100))


async def test_points_of_an_attempt_that_trained_the_step_again_are_left_out(
    pool: ReadModelsPool, module_tables: str
) -> None:
    async with given_tables(module_tables) as rows:
        await rows.write(points("a", "loss", [1.0, 2.0, 3.0, 4.0]))
        await rows.attempt("a", "s", 2, resumed_step=2)
        await rows.write(points("a", "loss", [30.0, 40.0], first=2, attempt=2))
    found = (await curves_of(pool, "a"))["a"]
    assert found.arrays["value"].tolist() == [1.0, 2.0, 30.0, 40.0]


async def test_the_timeline_has_the_placements_of_a_time_by_device(
    pool: ReadModelsPool, module_tables: str
) -> None:
    rows = (
        ("t1", "s", "w1", ["gpu0", "gpu1"], 100, 200, "finished"),
        ("t2", "s", "w1", ["gpu0"], 200, None, None),
        ("t3", "r", "w2", ["cpu0"], 10, 90, "failed"),
        ("t4", "r", "w2", ["cpu0"], 500, 600, "lost"),
    )
    await insert(module_tables, PLACEMENT, rows)
    async with pool.read() as models:
        found = await timeline_columns(models, 95, 400)
        longest = await timeline_columns(models, 0, 1_000, limit=1)
        nothing = await timeline_columns(models, 0, 5)
    assert (found.rows, found.total) == (3, 3)
    named = {
        name: [None if code < 0 else found.labels[name][code] for code in found.arrays[name]]
        for name in ("device", "task", "stream", "ending")
    }
    assert named == {
        "device": ["w1/gpu0", "w1/gpu0", "w1/gpu1"],
        "task": ["t1", "t2", "t1"],
        "stream": ["s", "s", "s"],
        "ending": ["finished", None, "finished"],
    }
    assert found.arrays["began_ms"].tolist() == [100, 200, 100]
    assert np.array_equal(found.arrays["ended_ms"], [200, math.nan, 200], equal_nan=True)
    assert (longest.total, longest.arrays["began_ms"].tolist()) == (5, [200])
    assert (nothing.total, nothing.rows) == (0, 0)


async def test_a_curve_of_any_length_has_at_most_200_buckets_with_their_extremes(module_tables: str) -> None:
    chance = Random(103)
    values: list[float | None] = [chance.gauss(0, 1) for _ in range(5_000)]
    values[1_234], values[0], values[4_999] = 99.0, None, -7.0
    async with given_tables(module_tables) as rows:
        await rows.write(points("j", "loss", values, first=-100))
        await rows.write(points("j", "one", [0.5], first=2**53 + 1))
    names = "bucket, first_step, last_step, points, non_finite, min_value, max_value, first_value, last_value"
    of_tag = f"SELECT {names} FROM dashboards.curve_buckets WHERE task_id = 'j' AND tag = $1 ORDER BY bucket"  # noqa: S608
    found = await query(module_tables, of_tag, "loss")
    assert [row[0] for row in found] == list(range(1, 201))
    for bucket, first, last, count, non_finite, *extremes in found:
        assert isinstance(first, int) and isinstance(last, int)
        own = values[first + 100 : last + 101]
        finite = [value for value in own if value is not None]
        assert (count, non_finite) == (len(own), len(own) - len(finite))
        assert extremes == [min(finite), max(finite), None if bucket == 1 else own[0], own[-1]]
    assert await query(module_tables, of_tag, "one") == [(1, 2**53 + 1, 2**53 + 1, 1, 0, 0.5, 0.5, 0.5, 0.5)]
