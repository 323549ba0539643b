"""Columns of trials that follow a search: what changed is read, and the result is that of reading all."""

import math

import numpy as np
import pytest

from tests.integration.projections.given_trials import GivenTrial, write_search, write_trials
from tests.integration.projections.harness import query
from trackside.projections.database.postgres import database as opened_database
from trackside.projections.pages import trial_refresh
from trackside.projections.pages.trial_cache import TrialColumnsCache
from trackside.projections.pages.trial_columns import trial_columns
from trackside.projections.pages.trial_refresh import refresh_trial_columns
from trackside.projections.reading.columns import NO_LABEL, ChartColumns
from trackside.projections.reading.read_pool import ReadModelsPool
from trackside.projections.writing.migrate import create_views

TRIALS = [
    GivenTrial({"lr": 0.5, "kind": "a"}, 1.0),
    GivenTrial({"lr": 0.25, "kind": "b"}, None, "RUNNING", ended_ms=None),
    GivenTrial({"lr": 0.75, "kind": "b"}, math.nan, "FAILED"),
]


@pytest.fixture(autouse=True)
async def database(module_tables: str) -> str:
    """Returns a database that has nothing but a search with a trial that runs."""
    async with opened_database(module_tables) as opened:
        await opened.transaction(lambda connection: connection.execute("TRUNCATE searches, trials"))
    await write_search(module_tables, "s", TRIALS)
    return module_tables


async def read_all(pool: ReadModelsPool, *parameters: str) -> ChartColumns:
    async with pool.read() as models:
        return await trial_columns(models, "s", parameters or None)


async def refreshed(pool: ReadModelsPool, known: ChartColumns, *parameters: str) -> ChartColumns:
    async with pool.read() as models:
        return await refresh_trial_columns(models, "s", known, parameters or None)


def rows_of(columns: ChartColumns) -> dict[str, list[object]]:
    """Returns the columns as lists, with labels in place of codes and None in place of NaN."""
    found: dict[str, list[object]] = {}
    for name, array in columns.arrays.items():
        labels = columns.labels.get(name)
        if labels is None:
            found[name] = [None if np.isnan(value) else value for value in array.tolist()]
        else:
            found[name] = [None if code == NO_LABEL else labels[code] for code in array.tolist()]
    return found


async def test_trials_that_end_and_begin_are_as_if_all_were_read(pool: ReadModelsPool, database: str) -> None:
    known = await read_all(pool)
    before = rows_of(known)
    assert rows_of(await refreshed(pool, known)) == before
    await query(
        database,
        "UPDATE trials SET status = 'SUCCEEDED', value = 0.5, ended_ms = 7, last_value = 2 WHERE trial = 1",
    )
    await write_trials(
        database,
        "s",
        [GivenTrial({"lr": 2, "kind": "new"}, 4.0), GivenTrial({"lr": 3}, None, "RUNNING", ended_ms=None)],
        first=3,
    )
    found = await refreshed(pool, known)
    assert rows_of(found) == rows_of(await read_all(pool))
    assert found.total == 5 and rows_of(known) == before
    assert list(found.labels["parameters.kind"])[:2] == list(known.labels["parameters.kind"])
    assert {array.dtype for array in found.arrays.values()} == {np.dtype("i4"), np.dtype("f8")}


async def test_some_parameters_stay_those_that_are_read(pool: ReadModelsPool, database: str) -> None:
    known = await read_all(pool, "lr")
    await write_trials(database, "s", [GivenTrial({"lr": 2, "kind": "new", "more": 1}, 4.0)], first=3)
    found = await refreshed(pool, known, "lr")
    assert rows_of(found) == rows_of(await read_all(pool, "lr"))
    assert "parameters.kind" not in found.arrays


@pytest.mark.parametrize("parameters", [{"lr": 1, "added": 5}, {"lr": "automatic"}])
async def test_all_is_read_where_the_columns_do_not_fit(
    pool: ReadModelsPool, database: str, parameters: dict[str, object]
) -> None:
    known = await read_all(pool)
    await write_trials(database, "s", [GivenTrial(parameters, 4.0)], first=3)
    found = await refreshed(pool, known)
    assert rows_of(found) == rows_of(await read_all(pool))
    assert set(found.arrays) > set(known.arrays) or "parameters.lr" in found.labels


async def test_all_is_read_where_many_trials_changed_or_known_ones_are_gone(
    pool: ReadModelsPool, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = await read_all(pool)
    monkeypatch.setattr(trial_refresh, "MOST_CHANGED", 3)
    await write_trials(database, "s", [GivenTrial({"lr": 1}, 1.0)] * 5, first=3)
    assert rows_of(await refreshed(pool, known)) == rows_of(await read_all(pool))
    await query(database, "DELETE FROM trials WHERE trial > 0")
    assert rows_of(await refreshed(pool, known)) == rows_of(await read_all(pool))


async def test_columns_of_a_search_without_trials_grow(pool: ReadModelsPool, database: str) -> None:
    await query(database, "DELETE FROM trials")
    known = await read_all(pool)
    await write_trials(database, "s", TRIALS)
    assert rows_of(await refreshed(pool, known)) == rows_of(await read_all(pool))


async def cached(pool: ReadModelsPool, cache: TrialColumnsCache) -> ChartColumns:
    async with pool.read() as models:
        return await cache.read(models, "s")


async def test_charts_of_a_search_share_its_columns_until_a_trial_changes(
    pool: ReadModelsPool, database: str
) -> None:
    cache = TrialColumnsCache()
    first = await cached(pool, cache)
    await query(database, "UPDATE trials SET status = 'SUCCEEDED', value = 3, ended_ms = 7 WHERE trial = 1")
    second = await cached(pool, cache)
    assert rows_of(second) == rows_of(await read_all(pool)) != rows_of(first)
    assert await cached(pool, cache) is second


async def test_columns_from_before_a_rebuild_are_read_again(pool: ReadModelsPool, database: str) -> None:
    cache = TrialColumnsCache()
    await cached(pool, cache)
    for statement in (
        "CREATE TABLE trackside.rebuilt (LIKE trackside.trials INCLUDING ALL)",
        "INSERT INTO trackside.rebuilt SELECT * FROM trackside.trials",
        "ALTER TABLE trackside.trials RENAME TO replaced",
        "ALTER TABLE trackside.rebuilt RENAME TO trials",
    ):
        await query(database, statement)
    async with opened_database(database) as opened:
        await opened.transaction(lambda connection: create_views(connection, "trackside"))
    await query(database, "DROP TABLE trackside.replaced")
    await query(database, "UPDATE trackside.trials SET value = 9 WHERE trial = 0")
    found = await cached(pool, cache)
    assert rows_of(found)["objectives.default"][0] == 9


async def test_columns_that_are_too_large_are_not_kept(pool: ReadModelsPool) -> None:
    cache = TrialColumnsCache(max_bytes=10)
    first, second = await cached(pool, cache), await cached(pool, cache)
    assert rows_of(first) == rows_of(second) and cache.size_bytes == 0
