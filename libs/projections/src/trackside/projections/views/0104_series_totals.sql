-- What is known of each curve of numbers without reading its points.
SELECT
    metric_series.stream_id, metric_series.task_id, metric_series.attempt, metric_series.tag,
    metric_totals.points, metric_totals.first_step, metric_totals.last_step, metric_totals.last_value,
    metric_totals.min_value, metric_totals.max_value, metric_totals.mean_value, metric_totals.non_finite,
    time_of(metric_totals.first_ms) AS first_at, time_of(metric_totals.last_ms) AS last_at
FROM metric_series
JOIN metric_totals ON metric_totals.series = metric_series.series
WHERE metric_series.kind = 'scalar'
