-- Points of all attempts. One of a task's own counts unless a later attempt has trained its step again: one that
-- resumed at or below it, or that has points and began with the first step.
SELECT
    metric_series.stream_id, metric_series.task_id, metric_series.attempt, metric_series.tag,
    metric_points.step, metric_points.value,
    to_timestamp(metric_points.wall_time_ms / 1000.0) AS wall_time,
    metric_series.tag LIKE 'system/%' OR again.step IS NULL OR metric_points.step < again.step AS counts
FROM metric_series
LEFT JOIN LATERAL (
    SELECT min(coalesce(attempts.resumed_step, 0)) AS step
    FROM attempts
    WHERE attempts.task_id = metric_series.task_id AND attempts.stream_id = metric_series.stream_id
        AND attempts.attempt > metric_series.attempt
        AND (attempts.resumed_step IS NOT NULL OR EXISTS (
            SELECT FROM metric_series AS later
            WHERE later.task_id = attempts.task_id AND later.stream_id = attempts.stream_id
                AND later.attempt = attempts.attempt AND later.tag NOT LIKE 'system/%'
        ))
) AS again ON true
JOIN metric_points ON metric_points.series = metric_series.series
