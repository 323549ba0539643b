-- The resources that the tasks of each type used, and the estimates of their users; and what is reserved for a task
-- without an estimate: 10% above the peak of the newest 20 finished attempts, as the scheduler computes it.
-- Tasks and attempts are joined once. Only the attempts that are not older than the newest 20 are ranked.
WITH used AS MATERIALIZED (
    SELECT
        tasks.task_type, tasks.estimate_memory_bytes, tasks.estimate_cuda_memory_bytes,
        attempts.stream_id, attempts.task_id, attempts.ending, attempts.ended_ms, attempts.accepted_ms,
        attempts.interrupts, attempts.load_time_ms, attempts.train_time_ms,
        attempts.peak_memory_bytes, attempts.peak_cuda_memory_bytes
    FROM tasks
    JOIN attempts ON attempts.task_id = tasks.task_id AND attempts.stream_id = tasks.stream_id
),
newest AS (
    SELECT
        task_type,
        coalesce((array_agg(ended_ms ORDER BY ended_ms DESC) FILTER (WHERE peak_memory_bytes IS NOT NULL))[20], 0)
            AS memory_since_ms,
        coalesce(
            (array_agg(ended_ms ORDER BY ended_ms DESC) FILTER (WHERE peak_cuda_memory_bytes IS NOT NULL))[20], 0
        ) AS cuda_since_ms
    FROM used
    WHERE ending = 'finished'
    GROUP BY task_type
),
ranked AS (
    SELECT
        used.task_type, used.peak_memory_bytes, used.peak_cuda_memory_bytes,
        row_number() OVER (
            PARTITION BY used.task_type, used.peak_memory_bytes IS NULL
            ORDER BY used.ended_ms DESC, used.stream_id DESC, used.task_id DESC
        ) AS by_memory,
        row_number() OVER (
            PARTITION BY used.task_type, used.peak_cuda_memory_bytes IS NULL
            ORDER BY used.ended_ms DESC, used.stream_id DESC, used.task_id DESC
        ) AS by_cuda
    FROM used
    JOIN newest ON newest.task_type = used.task_type
    WHERE
        used.ending = 'finished'
        AND (
            (used.peak_memory_bytes IS NOT NULL AND used.ended_ms >= newest.memory_since_ms)
            OR (used.peak_cuda_memory_bytes IS NOT NULL AND used.ended_ms >= newest.cuda_since_ms)
        )
),
learned AS (
    SELECT
        task_type,
        -- Limited before the product: least() of NULL and a limit is the limit.
        trunc(max(least(peak_memory_bytes, 8e18)) FILTER (WHERE peak_memory_bytes IS NOT NULL AND by_memory <= 20)
            * 1.1::float8)::bigint AS memory_bytes,
        trunc(max(least(peak_cuda_memory_bytes, 8e18)) FILTER (WHERE peak_cuda_memory_bytes IS NOT NULL AND by_cuda <= 20)
            * 1.1::float8)::bigint AS cuda_memory_bytes
    FROM ranked
    GROUP BY task_type
)
SELECT
    used.task_type,
    count(*) FILTER (WHERE used.accepted_ms IS NOT NULL) AS runs,
    count(*) FILTER (WHERE used.ending = 'finished') AS finished,
    count(*) FILTER (WHERE used.ending IN ('oom_host', 'oom_device')) AS out_of_memory,
    coalesce(sum(used.interrupts), 0)::bigint AS interrupts,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY used.load_time_ms) AS load_time_p50_ms,
    max(used.load_time_ms) AS load_time_max_ms,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY used.train_time_ms) AS train_time_p50_ms,
    max(used.train_time_ms) AS train_time_max_ms,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY used.peak_memory_bytes) AS peak_memory_p50_bytes,
    max(used.peak_memory_bytes) AS peak_memory_max_bytes,
    max(used.estimate_memory_bytes) AS estimate_memory_bytes,
    max(learned.memory_bytes) AS learned_memory_bytes,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY used.peak_cuda_memory_bytes) AS peak_cuda_memory_p50_bytes,
    max(used.peak_cuda_memory_bytes) AS peak_cuda_memory_max_bytes,
    max(used.estimate_cuda_memory_bytes) AS estimate_cuda_memory_bytes,
    max(learned.cuda_memory_bytes) AS learned_cuda_memory_bytes
FROM used
LEFT JOIN learned ON learned.task_type = used.task_type
GROUP BY used.task_type
