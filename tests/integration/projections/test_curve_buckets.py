"""Curves for dashboards, thinned in SQL."""

import random

from tests.integration.projections.harness import query
from tests.integration.summaries.given import given_tables, points


async def test_a_curve_of_any_length_has_at_most_200_buckets_with_their_extremes(database: str) -> None:
    chance = random.Random(103)
    values: list[float | None] = [chance.gauss(0, 1) for _ in range(5_000)]
    values[1_234], values[0], values[4_999] = 99.0, None, -7.0
    async with given_tables(database) as rows:
        await rows.write(points("j", "loss", values, first=-100))
        await rows.write(points("j", "one", [0.5], first=2**53 + 1))
    names = "bucket, first_step, last_step, points, non_finite, min_value, max_value, first_value, last_value"
    of_tag = f"SELECT {names} FROM dashboards.curve_buckets WHERE task_id = 'j' AND tag = $1 ORDER BY bucket"  # noqa: S608
    found = await query(database, of_tag, "loss")
    assert [row[0] for row in found] == list(range(1, 201))
    for bucket, first, last, count, non_finite, *extremes in found:
        assert isinstance(first, int) and isinstance(last, int)
        own = values[first + 100 : last + 101]
        finite = [value for value in own if value is not None]
        assert (count, non_finite) == (len(own), len(own) - len(finite))
        assert extremes == [min(finite), max(finite), None if bucket == 1 else own[0], own[-1]]
    assert await query(database, of_tag, "one") == [(1, 2**53 + 1, 2**53 + 1, 1, 0, 0.5, 0.5, 0.5, 0.5)]
