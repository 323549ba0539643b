-- A device and the task that has it now: a worker that is gone holds none.
SELECT
    devices.worker_id, devices.device_id, devices.kind, devices.name, devices.memory_bytes,
    CASE
        WHEN workers.status <> 'here' THEN workers.status
        WHEN running.task_id IS NULL THEN 'free'
        ELSE 'busy'
    END AS state,
    running.task_id, running.stream_id, running.trial, running.state AS task_state, running.status AS attempt_status,
    to_timestamp(running.assigned_ms / 1000.0) AS since
FROM devices
JOIN workers ON workers.worker_id = devices.worker_id
LEFT JOIN LATERAL (
    SELECT tasks.task_id, tasks.stream_id, tasks.trial, tasks.state, attempts.status, attempts.assigned_ms
    FROM tasks
    JOIN attempts
        ON attempts.task_id = tasks.task_id
        AND attempts.stream_id = tasks.stream_id
        AND attempts.attempt = tasks.attempts
    WHERE tasks.worker_id = devices.worker_id
        AND devices.device_id = ANY (tasks.device_ids)
        AND tasks.state IN ('placed', 'active')
    ORDER BY attempts.assigned_ms DESC, tasks.task_id
    LIMIT 1
) AS running ON workers.status = 'here'
