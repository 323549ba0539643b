-- Event files of directories, up to which byte each is indexed, and why one is quarantined.
SELECT
    summary_files.summary_id, summary_files.file, summary_files.number, summary_files.end_byte,
    summary_files.records, summary_files.status, summary_files.code, summary_files.message,
    to_timestamp(summary_files.again_at_ms / 1000.0) AS again_at,
    to_timestamp(summary_files.indexed_ms / 1000.0) AS indexed_at
FROM summary_files
