SELECT
    stream_id,
    log_offset,
    time_of(forgotten_ms) AS forgotten_at,
    reason,
    kind,
    status,
    unit,
    ended,
    total,
    ends,
    time_of(started_ms) AS started_at,
    time_of(ended_ms) AS ended_at
FROM forgotten_streams
