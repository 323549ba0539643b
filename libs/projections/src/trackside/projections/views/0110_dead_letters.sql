SELECT
    source_topic AS topic, source_partition AS partition, source_offset AS "offset", code, message, reader, sha256,
    head_base64, time_of(written_ms) AS written_at
FROM dead_letters
