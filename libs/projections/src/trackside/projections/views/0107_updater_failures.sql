SELECT name, time_of(failed_ms) AS failed_at, failures, error
FROM updater_failures
