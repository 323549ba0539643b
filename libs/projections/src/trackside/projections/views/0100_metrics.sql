-- Points of all attempts, and of the sessions of directories with event files, whose stream is their job. A point of
-- a task's own counts unless a later attempt has trained its step again: one that resumed at or below it, or that
-- has points and began with the first step. One of a session counts unless a later session has the tag from its
-- step on. A value that isn't finite is NULL, and `non_finite` is nan, inf or -inf where the record said it.
SELECT
    metric_series.stream_id, metric_series.task_id, metric_series.attempt, metric_series.tag,
    metric_points.step, metric_points.value,
    time_of(metric_points.wall_time_ms) AS wall_time,
    metric_series.tag LIKE 'system/%' OR again.step IS NULL OR metric_points.step < again.step AS counts,
    (ARRAY['nan', 'inf', '-inf'])[metric_points.non_finite] AS non_finite, metric_points.wall_time_ms
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
    UNION ALL
    SELECT min(metric_totals.first_step)
    FROM metric_series AS later
    JOIN metric_totals ON metric_totals.series = later.series
    WHERE metric_series.stream_id = metric_series.task_id AND later.task_id = metric_series.task_id
        AND later.attempt > metric_series.attempt AND later.tag = metric_series.tag
        AND later.kind = metric_series.kind
) AS again ON again.step IS NOT NULL
JOIN metric_points ON metric_points.series = metric_series.series
