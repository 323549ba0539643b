SELECT
    repeats.repeat_id, repeats.name, repeats.status, repeats.times, repeats.ended, repeats.finished,
    to_timestamp(repeats.started_ms / 1000.0) AS started_at,
    to_timestamp(repeats.ended_ms / 1000.0) AS ended_at,
    (repeats.ended_ms - repeats.started_ms) / 1000.0 AS duration_s,
    repeats.spec
FROM repeats
