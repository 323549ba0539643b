-- Runs of pipelines; progress is from 0 to 1: each step counts with its weight, and while it goes on with
-- the share of its items that have ended.
SELECT
    runs.run_id, runs.name, runs.status, runs.pipeline_id, runs.version, runs.number, runs.steps,
    counted.ended_steps, counted.failed_steps, counted.open_steps, counted.progress,
    runs.parameters, runs.outputs, runs.causes, runs.revival, runs.stop_reason,
    time_of(runs.started_ms) AS started_at,
    time_of(runs.due_ms) AS due_at,
    time_of(runs.ended_ms) AS ended_at,
    (runs.ended_ms - runs.started_ms) / 1000.0 AS duration_s,
    runs.archived, runs.sha256, runs.spec
FROM runs
LEFT JOIN LATERAL (
    SELECT
        (count(*) FILTER (WHERE steps.ended_ms IS NOT NULL))::integer AS ended_steps,
        (count(*) FILTER (WHERE steps.state IN ('failed', 'aborted', 'timed_out', 'lost')))::integer AS failed_steps,
        (count(*) FILTER (WHERE steps.state IN ('ready', 'queued', 'running')))::integer AS open_steps,
        -- Numeric: products and quotients of the least weights are errors of double precision.
        round(sum(steps.weight::numeric * steps.share_ended::numeric) / sum(steps.weight::numeric), 9)::float8 AS progress
    FROM steps
    WHERE steps.run_id = runs.run_id
) AS counted ON true
