-- The resources that the tasks of each type used, and the estimates of their users; and what is reserved for a task
-- without an estimate: 10% above the peak of the newest 20 finished attempts, as the scheduler computes it.
WITH ranked AS (
    SELECT
        tasks.task_type, attempts.peak_memory_bytes, attempts.peak_cuda_memory_bytes,
        row_number() OVER (
            PARTITION BY tasks.task_type, attempts.peak_memory_bytes IS NULL
            ORDER BY attempts.ended_ms DESC, attempts.stream_id DESC, attempts.task_id DESC
        ) AS by_memory,
        row_number() OVER (
            PARTITION BY tasks.task_type, attempts.peak_cuda_memory_bytes IS NULL
            ORDER BY attempts.ended_ms DESC, attempts.stream_id DESC, attempts.task_id DESC
        ) AS by_cuda
    FROM tasks
    JOIN attempts ON attempts.task_id = tasks.task_id AND attempts.stream_id = tasks.stream_id
    WHERE attempts.ending = 'finished'
),
learned AS (
    SELECT
        task_type,
        trunc(max(peak_memory_bytes) FILTER (WHERE by_memory <= 20) * 1.1::float8)::bigint AS memory_bytes,
        trunc(max(peak_cuda_memory_bytes) FILTER (WHERE by_cuda <= 20) * 1.1::float8)::bigint AS cuda_memory_bytes
    FROM ranked
    GROUP BY task_type
)
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
    max(learned.memory_bytes) AS learned_memory_bytes,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY attempts.peak_cuda_memory_bytes) AS peak_cuda_memory_p50_bytes,
    max(attempts.peak_cuda_memory_bytes) AS peak_cuda_memory_max_bytes,
    max(tasks.estimate_cuda_memory_bytes) AS estimate_cuda_memory_bytes,
    max(learned.cuda_memory_bytes) AS learned_cuda_memory_bytes
FROM tasks
JOIN attempts ON attempts.task_id = tasks.task_id AND attempts.stream_id = tasks.stream_id
LEFT JOIN learned ON learned.task_type = tasks.task_type
GROUP BY tasks.task_type
