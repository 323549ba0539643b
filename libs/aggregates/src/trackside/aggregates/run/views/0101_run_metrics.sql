-- The metrics of steps that their runs show as their own, under the names that the definitions give: every point.
-- Where the pattern ends in `*`, a metric keeps its own name.
SELECT
    mirrors.run_id, mirrors.step, metrics.task_id, metrics.attempt,
    CASE WHEN mirrors.is_prefix THEN metrics.tag ELSE mirrors.name END AS name,
    metrics.tag, metrics.step AS training_step, metrics.value, metrics.wall_time, metrics.counts
FROM (
    SELECT
        runs.run_id, spec.step ->> 'name' AS step, rtrim(mirror.pattern, '*') AS pattern, mirror.name,
        right(mirror.pattern, 1) = '*' AS is_prefix
    FROM runs
    CROSS JOIN LATERAL jsonb_array_elements(runs.spec -> 'steps') AS spec (step)
    CROSS JOIN LATERAL jsonb_each_text(spec.step -> 'mirror' -> 'metrics') AS mirror (pattern, name)
) AS mirrors
JOIN tasks ON tasks.stream_id = mirrors.run_id AND tasks.name = mirrors.step
JOIN dashboards.metrics AS metrics ON
    metrics.stream_id = tasks.stream_id AND metrics.task_id = tasks.task_id
    AND CASE
        WHEN mirrors.is_prefix THEN starts_with(metrics.tag, mirrors.pattern) ELSE metrics.tag = mirrors.pattern
    END
