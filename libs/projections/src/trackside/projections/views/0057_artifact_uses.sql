-- What tasks were given: inputs, and checkpoints to begin with.
SELECT
    stream_id, task_id, use, name, uri, sha256, size_bytes, media_type, source, credential, step,
    time_of(submitted_ms) AS submitted_at
FROM artifact_uses
