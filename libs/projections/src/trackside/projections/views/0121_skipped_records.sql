SELECT
    stream_id,
    partition,
    log_offset,
    needs,
    reason,
    command_id,
    time_of(skipped_ms) AS skipped_at
FROM skipped_records
