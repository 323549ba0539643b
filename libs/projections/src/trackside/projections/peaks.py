"""What finished attempts used, by the read models: who starts from snapshots didn't see them end."""

from dataclasses import dataclass

from trackside.projections.postgres import LIVE_SCHEMA, PostgresGoneError, SchemaMissingError, database, sql


@dataclass(frozen=True, slots=True)
class Peak:
    """The most that a finished attempt of a task type used, bytes; 0 if it isn't known."""

    task_type: str
    memory_bytes: int
    cuda_memory_bytes: int


async def newest_peaks(dsn: str, each: int) -> list[Peak]:
    """Gives the peaks of the newest attempts, `each` of every task type, oldest first; none without Postgres.

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
