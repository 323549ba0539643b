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
    to_timestamp(ready_ms / 1000.0) AS ready_since, ready AS detail,
    to_timestamp(not_before_ms / 1000.0) AS not_before,
    attempts, attempts - 1 AS restarts, worker_id, device_ids,
    instruction_number, instruction_body, acknowledged_number, acknowledged_ok, acknowledged_detail,
    unschedulable, stop_reason, to_timestamp(queued_ms / 1000.0) AS queued_at,
    to_timestamp(ended_ms / 1000.0) AS ended_at
FROM tasks
WHERE service
