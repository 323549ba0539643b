-- What a task was given.
SELECT use, name, uri, sha256, size_bytes, media_type, source, step, time_of(submitted_ms) AS submitted_at
FROM artifact_uses
WHERE task_id = $1
ORDER BY log_partition, log_offset, use, name
LIMIT $2
