SELECT
    stream_id, kind, tags, note, archived,
    time_of(changed_ms) AS changed_at
FROM stream_labels
