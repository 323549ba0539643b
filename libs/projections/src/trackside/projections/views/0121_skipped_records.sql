SELECT
    stream_id,
    partition,
    log_offset,
    needs,
    reason,
    command_id,
    to_timestamp(skipped_ms / 1000.0) AS skipped_at
FROM skipped_records
