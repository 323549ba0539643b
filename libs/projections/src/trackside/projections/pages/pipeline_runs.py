"""Runs of pipelines as web pages show them: numbered, the newest first."""

from trackside.domain.rows.table import ViewRow
from trackside.projections.reading.read_pool import SnapshotModels


async def read_pipeline_runs(
    models: SnapshotModels, pipeline_id: str, status: str, limit: int, offset: int
) -> list[ViewRow]:
    """Returns runs of a pipeline with a status (empty: any), with their steps; the newest first.

    `has_begun` says whether there is a stream of the run.
    """
    return await models.fetch(
        "SELECT pipeline_runs.*, runs.steps, runs.ended_steps, runs.failed_steps, runs.progress, "
        "runs.run_id IS NOT NULL AS has_begun "
        "FROM pipeline_runs LEFT JOIN runs ON runs.run_id = pipeline_runs.run_id "
        "WHERE pipeline_runs.pipeline_id = $1 AND ($2 = '' OR pipeline_runs.status = $2) "
        "ORDER BY run_number DESC LIMIT $3 OFFSET $4",
        pipeline_id,
        status,
        limit,
        offset,
    )


async def count_pipeline_runs(models: SnapshotModels, pipeline_id: str) -> dict[str, int]:
    """Returns how many runs of a pipeline there are by status."""
    rows = await models.fetch(
        "SELECT status, count(*) AS runs FROM pipeline_runs WHERE pipeline_id = $1 GROUP BY 1 ORDER BY 1",
        pipeline_id,
    )
    return {row["status"]: row["runs"] for row in rows}


async def read_run_durations(models: SnapshotModels, pipeline_id: str, limit: int) -> list[ViewRow]:
    """Returns number, status and duration, s, of the newest runs that have ended, the oldest first."""
    found = await models.fetch(
        "SELECT run_number, status, duration_s FROM pipeline_runs "
        "WHERE pipeline_id = $1 AND duration_s IS NOT NULL ORDER BY run_number DESC LIMIT $2",
        pipeline_id,
        limit,
    )
    return found[::-1]
