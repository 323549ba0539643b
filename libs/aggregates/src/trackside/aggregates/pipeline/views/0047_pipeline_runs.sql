-- Runs of pipelines that are defined, in the order in which they were asked for; each has a stream of its own.
SELECT
    pipeline_runs.pipeline_id, pipeline_runs.run_number, pipeline_runs.run_id, pipeline_runs.version,
    pipeline_runs.status, pipeline_runs.parameters, pipeline_runs.overrides, pipeline_runs.seed,
    pipeline_runs.use_cache, pipeline_runs.schedule, pipeline_runs.reason,
    time_of(pipeline_runs.numbered_ms) AS queued_at,
    time_of(pipeline_runs.requested_ms) AS started_at,
    time_of(pipeline_runs.ended_ms) AS ended_at,
    (pipeline_runs.ended_ms - pipeline_runs.requested_ms) / 1000.0 AS duration_s
FROM pipeline_runs
