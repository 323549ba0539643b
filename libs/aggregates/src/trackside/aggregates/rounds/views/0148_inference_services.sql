-- Inference services of jobs: the task of each, the version that it has confirmed, and what it has counted. Of one
-- that is not ready, `failed_attempts` have failed, the newest with the error.
SELECT
    services.job_id, services.target, services.name, services.replica, services.task_type, services.task_id,
    CASE
        WHEN NOT services.running THEN 'stopped'
        WHEN services.retired THEN 'stopping'
        ELSE coalesce(tasks.state, 'waiting')
    END AS state,
    services.update_number, coalesce(deployments.version, jobs.first_version) AS version,
    services.sha256,
    services.sha256 <> '' AND services.sha256 = jobs.live_sha256 AS is_live,
    tasks.detail ->> 'address' AS address, tasks.worker_id,
    services.windows, services.inferences, services.hard_examples,
    services.hard_examples::double precision / nullif(services.inferences, 0) AS hard_share,
    failures.attempt AS failed_attempts, failures.ending, failures.exit_code,
    failures.error_type, failures.error_message, tasks.unschedulable
FROM inference_services AS services
LEFT JOIN dashboards.services AS tasks ON
    tasks.stream_id = services.job_id AND tasks.task_id = services.task_id
LEFT JOIN LATERAL (
    SELECT attempts.attempt, attempts.ending, attempts.exit_code, attempts.error_type, attempts.error_message
    FROM attempts
    WHERE attempts.task_id = services.task_id AND attempts.stream_id = services.job_id AND attempts.ended_ms IS NOT NULL
    ORDER BY attempts.attempt DESC
    LIMIT 1
) AS failures ON tasks.state IN ('waiting', 'starting')
LEFT JOIN deployments ON
    deployments.job_id = services.job_id AND deployments.update_number = services.update_number
LEFT JOIN (
    SELECT
        incremental_jobs.job_id, incremental_jobs.live_sha256,
        (job_definitions.spec -> 'initial_model' ->> 'version')::integer AS first_version
    FROM incremental_jobs
    LEFT JOIN job_definitions ON job_definitions.job_id = incremental_jobs.job_id AND job_definitions.change = 0
) AS jobs ON jobs.job_id = services.job_id
