SELECT job_id, stream_id, points, items, last_step, first_ms, last_ms
FROM summary_briefs
WHERE $1::bigint IS NULL OR last_ms < $1::bigint OR (last_ms = $1::bigint AND job_id > $2)
ORDER BY last_ms DESC, job_id
LIMIT $3 OFFSET $4
