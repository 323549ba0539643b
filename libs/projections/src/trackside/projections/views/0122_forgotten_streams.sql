SELECT
    stream_id,
    log_offset,
    to_timestamp(forgotten_ms / 1000.0) AS forgotten_at,
    reason,
    kind,
    status,
    unit,
    ended,
    total,
    ends,
    to_timestamp(started_ms / 1000.0) AS started_at,
    to_timestamp(ended_ms / 1000.0) AS ended_at
FROM forgotten_streams
