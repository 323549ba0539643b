-- What a task was given.
SELECT use, name, uri, sha256, size_bytes, media_type, source, step, to_timestamp(submitted_ms / 1000.0) AS submitted_at
FROM artifact_uses
WHERE task_id = $1
ORDER BY log_partition, log_offset, use, name
LIMIT $2
