-- Tasks that run until they are stopped. What was acknowledged is what the newest placement said: it has yet to
-- acknowledge the newest instruction while the two numbers differ.
SELECT
    task_id, stream_id, task_type,
    CASE
        WHEN state = 'ended' THEN 'ended'
        WHEN state = 'queued' THEN 'waiting'
        WHEN ready_ms IS NULL THEN 'starting'
        ELSE 'ready'
    END AS state,
    time_of(ready_ms) AS ready_since, ready AS detail,
    time_of(not_before_ms) AS not_before,
    attempts, attempts - 1 AS restarts, worker_id, device_ids,
    instruction_number, instruction_body, acknowledged_number, acknowledged_ok, acknowledged_detail,
    unschedulable, stop_reason, time_of(queued_ms) AS queued_at,
    time_of(ended_ms) AS ended_at
FROM tasks
WHERE service
