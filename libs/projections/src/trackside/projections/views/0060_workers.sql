SELECT
    worker_id, incarnation, host, status, task_types, queues, memory_bytes, max_tasks,
    to_timestamp(joined_ms / 1000.0) AS joined_at,
    to_timestamp(gone_ms / 1000.0) AS gone_at
FROM workers
