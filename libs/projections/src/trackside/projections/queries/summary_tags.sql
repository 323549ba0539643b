-- Tags of a job ($1) by kind: values of all attempts together, last step, times.
SELECT
    metric_series.kind, metric_series.tag, count(*) AS attempts, sum(metric_totals.points)::bigint AS points,
    min(metric_totals.first_step) AS first_step, max(metric_totals.last_step) AS last_step,
    min(metric_totals.first_ms) AS first_ms, max(metric_totals.last_ms) AS last_ms,
    (array_agg(metric_totals.last_value ORDER BY metric_series.attempt DESC))[1] AS last_value,
    (array_agg(metric_totals.last_non_finite ORDER BY metric_series.attempt DESC))[1] AS last_non_finite
FROM metric_series
JOIN metric_totals ON metric_totals.series = metric_series.series
WHERE metric_series.task_id = $1 AND ($2::text IS NULL OR metric_series.kind = $2)
GROUP BY metric_series.kind, metric_series.tag
ORDER BY metric_series.kind COLLATE "C", metric_series.tag COLLATE "C"
LIMIT $3 OFFSET $4
