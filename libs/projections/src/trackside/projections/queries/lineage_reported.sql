-- What the lineage files of a directory have: the newest value of each tag and kind.
SELECT DISTINCT ON (metric_series.tag, metric_series.kind)
    metric_series.tag, metric_series.kind, summary_items.body
FROM metric_series
JOIN summary_items ON summary_items.series = metric_series.series
WHERE metric_series.task_id = $1 AND metric_series.kind IN ('hparams', 'text')
    AND starts_with(metric_series.tag, 'lineage/')
ORDER BY metric_series.tag, metric_series.kind, metric_series.attempt DESC, summary_items.step DESC,
    summary_items.wall_time_ms DESC, summary_items.item DESC
