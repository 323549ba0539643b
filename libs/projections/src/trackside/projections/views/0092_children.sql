SELECT
    stream_id, child_id, kind, status,
    to_timestamp(requested_ms / 1000.0) AS requested_at,
    to_timestamp(ended_ms / 1000.0) AS ended_at,
    (ended_ms - requested_ms) / 1000.0 AS duration_s,
    stop_reason, result
FROM children
