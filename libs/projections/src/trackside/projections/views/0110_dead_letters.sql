SELECT
    source_topic AS topic, source_partition AS partition, source_offset AS "offset", code, message, reader, sha256,
    head_base64, to_timestamp(written_ms / 1000.0) AS written_at
FROM dead_letters
