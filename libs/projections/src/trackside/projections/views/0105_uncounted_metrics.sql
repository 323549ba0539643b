SELECT
    stream_id, task_id, attempt, placement, kind, step, value, non_finite, reason,
    log_partition AS partition, log_offset AS "offset", to_timestamp(reported_ms / 1000.0) AS reported_at
FROM uncounted_metrics
