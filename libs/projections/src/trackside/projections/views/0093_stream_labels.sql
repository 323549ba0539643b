SELECT
    stream_id, kind, tags, note, archived,
    to_timestamp(changed_ms / 1000.0) AS changed_at
FROM stream_labels
