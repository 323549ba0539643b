SELECT DISTINCT ON (name) name, failed_ms, failures, error
FROM updater_failures
WHERE failed_ms >= $1
ORDER BY name, failed_ms DESC
