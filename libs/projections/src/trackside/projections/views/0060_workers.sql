SELECT
    worker_id, incarnation, host, status, task_types, queues, memory_bytes, max_tasks,
    time_of(joined_ms) AS joined_at,
    time_of(gone_ms) AS gone_at
FROM workers
