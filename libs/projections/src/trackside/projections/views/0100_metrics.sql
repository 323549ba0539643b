SELECT
    metric_series.stream_id, metric_series.task_id, metric_series.attempt, metric_series.tag,
    metric_points.step, metric_points.value,
    to_timestamp(metric_points.wall_time_ms / 1000.0) AS wall_time
FROM metric_points
JOIN metric_series ON metric_series.series = metric_points.series
