SELECT
    task_id, stream_id, task_type, queue, trial, state, attempts, worker_id, device_ids, ending, result, stop_reason,
    to_timestamp(queued_ms / 1000.0) AS queued_at,
    to_timestamp(ended_ms / 1000.0) AS ended_at
FROM tasks
