SELECT
    file, number, end_byte, records, status, code, message, again_at_ms, indexed_ms
FROM summary_files
WHERE summary_id = $1
ORDER BY number
