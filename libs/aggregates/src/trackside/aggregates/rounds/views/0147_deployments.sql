-- Updates of what is live: by a round, a rollback, or since the one before was withdrawn. `open` are the targets that
-- have not confirmed it. A version is live until the next one is.
SELECT
    updates.job_id, updates.update_number, updates.cause, updates.round, updates.model, updates.version, updates.sha256,
    CASE
        WHEN updates.deployed_ms IS NOT NULL THEN 'deployed'
        WHEN updates.is_newest THEN updates.status
        ELSE 'withdrawn'
    END AS state,
    updates.targets, CASE WHEN updates.is_newest THEN updates.open ELSE '[]' END AS open, updates.message,
    time_of(updates.published_ms) AS published_at,
    time_of(updates.deployed_ms) AS deployed_at,
    CASE WHEN updates.deployed_ms IS NOT NULL THEN time_of(updates.next_ms) END AS live_until,
    (updates.deployed_ms - updates.published_ms) / 1000.0 AS took_s
FROM (
    SELECT
        deployments.*,
        lead(deployments.update_number) OVER by_update IS NULL AS is_newest,
        min(deployments.deployed_ms) OVER (
            PARTITION BY deployments.job_id ORDER BY deployments.update_number
            ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
        ) AS next_ms
    FROM deployments
    WINDOW by_update AS (PARTITION BY deployments.job_id ORDER BY deployments.update_number)
) AS updates
