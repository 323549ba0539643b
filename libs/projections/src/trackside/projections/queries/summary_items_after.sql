-- The next $5 values of a series ($1) after step $2 and item $3, up to step $4.
SELECT step, item AS index, wall_time_ms AS time_ms, body, sha256, size_bytes, media_type
FROM summary_items
WHERE series = $1 AND (step, item) > ($2, $3) AND step <= $4
ORDER BY step, item
LIMIT $5
