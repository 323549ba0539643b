INSERT INTO summary_briefs (job_id, stream_id, points, items, last_step, first_ms, last_ms)
SELECT
    metric_series.task_id, min(metric_series.stream_id),
    coalesce(sum(metric_totals.points) FILTER (WHERE metric_series.kind = 'scalar'), 0),
    coalesce(sum(metric_totals.points) FILTER (WHERE metric_series.kind <> 'scalar'), 0),
    max(metric_totals.last_step) FILTER (WHERE NOT starts_with(metric_series.tag, 'system/')),
    min(metric_totals.first_ms), max(metric_totals.last_ms)
FROM metric_series
JOIN metric_totals ON metric_totals.series = metric_series.series
GROUP BY metric_series.task_id
