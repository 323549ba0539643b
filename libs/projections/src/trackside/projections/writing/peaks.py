"""Peak memory of finished attempts, from the read models: snapshots don't hold attempts that ended before."""

from dataclasses import dataclass

from trackside.projections.database.postgres import (
    LIVE_SCHEMA,
    PostgresGoneError,
    SchemaMissingError,
    database,
    sql,
)


@dataclass(frozen=True, slots=True)
class Peak:
    """The peak memory of a finished attempt of a task type, in bytes; 0 if it isn't known."""

    task_type: str
    memory_bytes: int
    cuda_memory_bytes: int


async def newest_peaks(dsn: str, each: int) -> list[Peak]:
    """Returns the peaks of the newest attempts, `each` per task type, oldest first; none without Postgres.

    It reads all attempts, once at the start of a service.
    """
    async with database(dsn, LIVE_SCHEMA) as opened:
        try:
            rows = await opened.transaction(
                lambda connection: connection.fetch(sql("queries", "newest_peaks"), each)
            )
        except (PostgresGoneError, SchemaMissingError):
            return []
    return [
        Peak(row["task_type"], row["peak_memory_bytes"] or 0, row["peak_cuda_memory_bytes"] or 0)
        for row in rows
    ]
