import asyncio
from collections.abc import Collection
from importlib.metadata import EntryPoint, EntryPoints
from itertools import pairwise

import pytest

from trackside.contracts.fleet import plugins
from trackside.projections.database.postgres import Database
from trackside.summary_indexer import updaters as module
from trackside.summary_indexer.updater_failures import LONGEST_PAUSE_S, FailurePauses
from trackside.summary_indexer.updaters import UpdaterRunner, installed_updaters

NO_DATABASE = Database("postgresql://nowhere")


class Failures:
    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []

    async def report(self, name: str, error: Exception) -> None:
        self.found.append((name, repr(error)))


async def test_an_updater_that_raises_is_skipped_and_the_others_run_on() -> None:
    """S2, S8: one that raised stopped all loading for good."""
    calls: list[tuple[str, frozenset[str]]] = []
    called, failures = asyncio.Event(), Failures()

    async def broken(database: Database, jobs: Collection[str]) -> None:
        calls.append(("broken", frozenset(jobs)))
        raise ZeroDivisionError

    async def good(database: Database, jobs: Collection[str]) -> None:
        calls.append(("good", frozenset(jobs)))
        called.set()

    runner = UpdaterRunner(NO_DATABASE, {"a-broken": broken, "good": good}, failures.report)
    running = asyncio.create_task(runner.run())
    for jobs in ({"j", "k"}, {"l"}):
        runner.touch(jobs)
        await asyncio.wait_for(called.wait(), 10)
        called.clear()
    running.cancel()
    jobs_of = (frozenset("jk"), frozenset("l"))
    assert calls == [(name, jobs) for jobs in jobs_of for name in ("broken", "good")]
    assert failures.found == [("a-broken", "ZeroDivisionError()")] * 2


async def touched(runner: UpdaterRunner, called: asyncio.Event) -> None:
    running = asyncio.create_task(runner.run())
    runner.touch(["j"])
    await asyncio.wait_for(called.wait(), 10)
    running.cancel()


async def test_an_updater_that_hangs_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UPDATE_LIMIT_S", 0.01)
    called, failures = asyncio.Event(), Failures()

    async def hangs(database: Database, jobs: Collection[str]) -> None:
        await asyncio.Event().wait()

    async def good(database: Database, jobs: Collection[str]) -> None:
        called.set()

    await touched(UpdaterRunner(NO_DATABASE, {"a": hangs, "b": good}, failures.report), called)
    assert failures.found == [("a", "TimeoutError('it took longer than 0.01 s')")]


async def test_registering_an_updater_twice_runs_it_once() -> None:
    calls: list[frozenset[str]] = []
    called = asyncio.Event()

    async def update(database: Database, jobs: Collection[str]) -> None:
        calls.append(frozenset(jobs))
        called.set()

    runner = UpdaterRunner(NO_DATABASE, {}, Failures().report)
    runner.register("lineage", update)
    runner.register("lineage", update)
    await touched(runner, called)
    assert calls == [frozenset("j")]


def test_a_package_whose_updater_can_not_be_loaded_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    named = {"broken": "no.such.module:update", "good": f"{__name__}:installed"}
    points = EntryPoints(EntryPoint(name, value, module.GROUP) for name, value in named.items())
    monkeypatch.setattr(plugins, "entry_points", lambda group: points.select(group=group))
    found, broken = installed_updaters()
    assert found == {"good": installed} and "no" in str(broken.pop("broken")) and not broken


def test_an_updater_that_always_fails_is_written_more_and_more_rarely_and_later_at_once() -> None:
    """One failure a second for a day: written at once, then after 1, 2, 4 ... minutes, at last each hour."""
    pauses = FailurePauses()
    counts = [(second, pauses.count("a", float(second))) for second in range(86_400)]
    written = [(second, count) for second, count in counts if count is not None]
    steps = [later[0] - earlier[0] for earlier, later in pairwise(written)]
    assert written[0] == (0, 1) and steps[:6] == [60, 120, 240, 480, 960, 1_920]
    assert set(steps[6:]) == {int(LONGEST_PAUSE_S)}
    assert all(count == second + 1 for second, count in written)
    pauses = FailurePauses()
    assert [pauses.count("a", now_s) for now_s in (0.0, 1.0, 60.0, 61.0)] == [1, None, 3, None]
    assert [pauses.count("a", now_s) for now_s in (9_000.0, 9_059.0, 9_060.0)] == [5, None, 7]
    assert pauses.count("b", 9_060.0) == 1


async def installed(database: Database, jobs: Collection[str]) -> None:
    """Does nothing."""
