"""Updaters that failed: functions of installed packages that run for jobs with new values."""

from dataclasses import dataclass

from trackside.projections.database.postgres import Connection, sql


@dataclass(frozen=True, slots=True)
class FailedUpdater:
    """The newest reported failure of an updater; `failures` are those since the indexer was started.

    The time is in ms since 1970.
    """

    name: str
    failed_ms: int
    failures: int
    error: str


async def failed_updaters(connection: Connection, since_ms: int) -> list[FailedUpdater]:
    """Returns the updaters that failed at or after a time in ms since 1970, sorted by name."""
    found = await connection.fetch(sql("queries", "failed_updaters"), since_ms)
    return [FailedUpdater(**row) for row in found]
