"""Functions of installed packages that run after a batch of values was committed, such as for a lineage.

An updater is an async function of the jobs that have new values, `update(database, jobs)`; it may write
tables of its own. One that fails or takes too long is skipped until the next batch, with an event in the log,
and stops nothing else.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping

from trackside.contracts.fleet.plugins import load_plugins
from trackside.projections.database.postgres import Database

GROUP = "trackside.summary_updaters"
"""The entry-point group of updaters: name = "module:function"."""
UPDATE_LIMIT_S = 30.0
"""How long an updater may take for one call."""

SummaryUpdater = Callable[[Database, Collection[str]], Awaitable[None]]


FailureReport = Callable[[str, Exception], Awaitable[None]]
"""Takes the name of an updater that failed, and its error."""


def installed_updaters() -> tuple[dict[str, SummaryUpdater], dict[str, Exception]]:
    """Returns the updaters of installed packages by name, and why others can't be loaded."""
    none: dict[str, SummaryUpdater] = {}
    found, broken = load_plugins(GROUP, none, lambda point, _: point.load())
    return found, {point.name: error for point, error in broken}


class UpdaterRunner:
    """Runs updaters over the jobs that batches touched; while one runs, the next jobs are collected."""

    def __init__(
        self, database: Database, updaters: Mapping[str, SummaryUpdater], report: FailureReport
    ) -> None:
        self._database, self._updaters, self._report = database, dict(updaters), report
        self._jobs: set[str] = set()
        self._arrived = asyncio.Event()

    def register(self, name: str, updater: SummaryUpdater) -> None:
        """Adds an updater; one of the same name is replaced."""
        self._updaters[name] = updater

    def touch(self, jobs: Collection[str]) -> None:
        """Notes that jobs have new values; returns at once."""
        if self._updaters:
            self._jobs.update(jobs)
            self._arrived.set()

    async def run(self) -> None:
        """Runs the updaters whenever jobs have new values, until cancelled."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            jobs, self._jobs = frozenset(self._jobs), set()
            for name, updater in list(self._updaters.items()):
                await self._update(name, updater, jobs)

    async def _update(self, name: str, updater: SummaryUpdater, jobs: frozenset[str]) -> None:
        try:
            async with asyncio.timeout(UPDATE_LIMIT_S) as limit:
                await updater(self._database, jobs)
        except Exception as error:  # noqa: BLE001 - it must not stop the others
            late = TimeoutError(f"it took longer than {UPDATE_LIMIT_S:g} s")
            await self._report(name, late if limit.expired() else error)
