-- What a task has saved, all versions.
SELECT
    name, version, kind, uri, sha256, size_bytes, media_type, step,
    stream_id || '/' || task_id || '/' || name || '@' || version AS source,
    time_of(saved_ms) AS saved_at
FROM artifacts
WHERE task_id = $1
ORDER BY log_partition, log_offset
LIMIT $2
