"""Rounds of incremental jobs as web pages show them: pages of rounds, metrics over them, samples by state."""

from trackside.domain.rows.table import ViewRow
from trackside.projections.reading.read_pool import SnapshotModels


async def read_rounds(models: SnapshotModels, job_id: str, limit: int, offset: int = 0) -> list[ViewRow]:
    """Returns rounds of a job, the newest first."""
    return await models.fetch(
        "SELECT * FROM rounds WHERE job_id = $1 ORDER BY round DESC LIMIT $2 OFFSET $3", job_id, limit, offset
    )


async def read_round(models: SnapshotModels, job_id: str, number: int) -> ViewRow | None:
    """Returns a round of a job by its number; None if there was none."""
    found = await models.fetch("SELECT * FROM rounds WHERE job_id = $1 AND round = $2", job_id, number)
    return found[0] if found else None


async def read_sample_ranges(models: SnapshotModels, job_id: str, number: int) -> list[ViewRow]:
    """Returns the ranges of samples of a round: those of its training, then those of its evaluation."""
    return await models.fetch(
        "SELECT * FROM sample_ranges WHERE job_id = $1 AND round = $2 ORDER BY use DESC, number",
        job_id,
        number,
    )


async def count_rounds(models: SnapshotModels, job_id: str) -> int:
    """Returns how many rounds a job has had, with the one that continues."""
    found = await models.fetch("SELECT count(*) AS rounds FROM rounds WHERE job_id = $1", job_id)
    return int(found[0]["rounds"])


async def read_metric_names(models: SnapshotModels, job_id: str) -> list[str]:
    """Returns the names of metrics that rounds of a job have."""
    rows = await models.fetch(
        "SELECT DISTINCT metric FROM round_metrics WHERE job_id = $1 "
        "AND (trained IS NOT NULL OR deployed IS NOT NULL) ORDER BY 1",
        job_id,
    )
    return [row["metric"] for row in rows]


async def read_round_metric(models: SnapshotModels, job_id: str, metric: str, limit: int) -> list[ViewRow]:
    """Returns a metric of the trained and of the deployed model in the newest rounds, the oldest first."""
    found = await models.fetch(
        "SELECT round, version, trained, deployed, was_deployed, at FROM round_metrics "
        "WHERE job_id = $1 AND metric = $2 ORDER BY round DESC LIMIT $3",
        job_id,
        metric,
        limit,
    )
    return found[::-1]


async def read_deployments(models: SnapshotModels, job_id: str, limit: int) -> list[ViewRow]:
    """Returns updates of what is live, the newest first."""
    return await models.fetch(
        "SELECT * FROM deployments WHERE job_id = $1 ORDER BY update_number DESC LIMIT $2", job_id, limit
    )


async def count_samples(models: SnapshotModels, job_id: str) -> list[ViewRow]:
    """Returns `use` (train or eval), `state` and the number of `samples` of a job, by use and state.

    The samples of an evaluation may be those of several rounds, each of which counts.
    """
    return await models.fetch(
        "SELECT use, state, sum(samples)::bigint AS samples, count(*) AS ranges FROM sample_ranges "
        "WHERE job_id = $1 GROUP BY 1, 2 ORDER BY 1 DESC, 2",
        job_id,
    )


async def read_stages(models: SnapshotModels, job_id: str, round_number: int) -> list[ViewRow]:
    """Returns the stages of a round: train, eval, deploy."""
    return await models.fetch(
        "SELECT * FROM stages WHERE job_id = $1 AND round = $2 "
        "ORDER BY array_position(ARRAY['train', 'eval', 'deploy'], stage::text)",
        job_id,
        round_number,
    )


async def read_trigger_evaluations(models: SnapshotModels, job_id: str, limit: int) -> list[ViewRow]:
    """Returns evaluations of the triggers of a job that have changed something, the newest first."""
    return await models.fetch(
        "SELECT * FROM trigger_evaluations WHERE job_id = $1 ORDER BY evaluation DESC LIMIT $2",
        job_id,
        limit,
    )


async def read_hard_shares(models: SnapshotModels, job_id: str, limit: int) -> list[ViewRow]:
    """Returns inferences and hard examples of all services by round, of the newest rounds; oldest first."""
    found = await models.fetch(
        "SELECT round, sum(inferences)::bigint AS inferences, sum(hard_examples)::bigint AS hard_examples "
        "FROM hard_examples WHERE job_id = $1 GROUP BY 1 ORDER BY 1 DESC LIMIT $2",
        job_id,
        limit,
    )
    return found[::-1]


async def read_jobs_of_dataset(models: SnapshotModels, dataset_id: str, limit: int) -> list[ViewRow]:
    """Returns jobs that train with a dataset, the newest first."""
    return await models.fetch(
        "SELECT job_id, name, status, round, samples, waiting_samples, live_model, live_version "
        "FROM incremental_jobs WHERE dataset = $1 ORDER BY started_at DESC, job_id LIMIT $2",
        dataset_id,
        limit,
    )


async def read_jobs_of_model(models: SnapshotModels, model_id: str, limit: int) -> list[ViewRow]:
    """Returns jobs that train versions of a model, or have one of them live; the newest first."""
    return await models.fetch(
        "SELECT job_id, name, status, round, live_model, live_version FROM incremental_jobs "
        "WHERE model = $1 OR live_model = $1 ORDER BY started_at DESC, job_id LIMIT $2",
        model_id,
        limit,
    )
