-- What the tasks of each type took, beside what their users said they would: learned estimates.
SELECT
    tasks.task_type,
    count(*) FILTER (WHERE attempts.accepted_ms IS NOT NULL) AS runs,
    count(*) FILTER (WHERE attempts.ending = 'finished') AS finished,
    count(*) FILTER (WHERE attempts.ending IN ('oom_host', 'oom_device')) AS out_of_memory,
    coalesce(sum(attempts.interrupts), 0)::bigint AS interrupts,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY attempts.load_time_ms) AS load_time_p50_ms,
    max(attempts.load_time_ms) AS load_time_max_ms,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY attempts.train_time_ms) AS train_time_p50_ms,
    max(attempts.train_time_ms) AS train_time_max_ms,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY attempts.peak_memory_bytes) AS peak_memory_p50_bytes,
    max(attempts.peak_memory_bytes) AS peak_memory_max_bytes,
    max(tasks.estimate_memory_bytes) AS estimate_memory_bytes,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY attempts.peak_cuda_memory_bytes) AS peak_cuda_memory_p50_bytes,
    max(attempts.peak_cuda_memory_bytes) AS peak_cuda_memory_max_bytes,
    max(tasks.estimate_cuda_memory_bytes) AS estimate_cuda_memory_bytes
FROM tasks
JOIN attempts ON attempts.task_id = tasks.task_id AND attempts.stream_id = tasks.stream_id
GROUP BY tasks.task_type
