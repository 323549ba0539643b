-- Event files of directories, up to which byte each is indexed, and why one is quarantined.
SELECT
    summary_files.summary_id, summary_files.file, summary_files.number, summary_files.end_byte,
    summary_files.records, summary_files.status, summary_files.code, summary_files.message,
    time_of(summary_files.again_at_ms) AS again_at,
    time_of(summary_files.indexed_ms) AS indexed_at
FROM summary_files
