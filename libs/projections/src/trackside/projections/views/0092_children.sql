SELECT
    stream_id, child_id, kind, status,
    time_of(requested_ms) AS requested_at,
    time_of(ended_ms) AS ended_at,
    (ended_ms - requested_ms) / 1000.0 AS duration_s,
    stop_reason, result
FROM children
