SELECT
    stream_id, task_id, attempt, placement, kind, step, value, non_finite, reason,
    log_partition AS partition, log_offset AS "offset", time_of(reported_ms) AS reported_at
FROM uncounted_metrics
