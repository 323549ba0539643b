"""Updaters run after a batch; one that raises stops neither the others nor the next batch."""

import asyncio
from collections.abc import Collection
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from trackside.projections.postgres import Database
from trackside.summary_indexer import updaters as module
from trackside.summary_indexer.updaters import UpdaterRunner, installed_updaters

NO_DATABASE = Database("postgresql://nowhere")


async def test_an_updater_that_raises_is_skipped_and_the_others_run_on() -> None:
    """S2, S8: one that raised stopped all loading for good."""
    calls: list[tuple[str, frozenset[str]]] = []
    called = asyncio.Event()

    async def broken(database: Database, jobs: Collection[str]) -> None:
        calls.append(("broken", frozenset(jobs)))
        raise ZeroDivisionError

    async def good(database: Database, jobs: Collection[str]) -> None:
        calls.append(("good", frozenset(jobs)))
        called.set()

    runner = UpdaterRunner(NO_DATABASE, {"a-broken": broken, "good": good})
    running = asyncio.create_task(runner.run())
    for jobs in ({"j", "k"}, {"l"}):
        runner.touch(jobs)
        await asyncio.wait_for(called.wait(), 10)
        called.clear()
    running.cancel()
    assert calls == [
        (name, jobs) for jobs in (frozenset("jk"), frozenset("l")) for name in ("broken", "good")
    ]


async def test_an_updater_that_hangs_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UPDATE_LIMIT_S", 0.01)
    called = asyncio.Event()

    async def hangs(database: Database, jobs: Collection[str]) -> None:
        await asyncio.Event().wait()

    async def good(database: Database, jobs: Collection[str]) -> None:
        called.set()

    runner = UpdaterRunner(NO_DATABASE, {"a": hangs, "b": good})
    running = asyncio.create_task(runner.run())
    runner.touch(["j"])
    await asyncio.wait_for(called.wait(), 10)
    running.cancel()


async def test_registering_an_updater_twice_runs_it_once() -> None:
    """S2."""
    calls: list[frozenset[str]] = []
    called = asyncio.Event()

    async def update(database: Database, jobs: Collection[str]) -> None:
        calls.append(frozenset(jobs))
        called.set()

    runner = UpdaterRunner(NO_DATABASE, {})
    runner.register("lineage", update)
    runner.register("lineage", update)
    running = asyncio.create_task(runner.run())
    runner.touch(["j"])
    await asyncio.wait_for(called.wait(), 10)
    running.cancel()
    assert calls == [frozenset("j")]


def test_a_package_whose_updater_can_not_be_loaded_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points = EntryPoints(
        [
            EntryPoint("broken", "no.such.module:update", module.GROUP),
            EntryPoint("good", "tests.unit.summary_indexer.test_updaters:installed", module.GROUP),
        ]
    )
    monkeypatch.setattr(module, "entry_points", lambda group: points.select(group=group))
    assert installed_updaters() == {"good": installed}


async def installed(database: Database, jobs: Collection[str]) -> None:
    """Does nothing."""
