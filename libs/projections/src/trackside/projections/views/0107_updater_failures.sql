SELECT name, to_timestamp(failed_ms / 1000.0) AS failed_at, failures, error
FROM updater_failures
