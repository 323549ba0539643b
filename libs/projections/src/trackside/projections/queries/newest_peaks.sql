-- The peaks of the newest $1 finished attempts of each task type, for memory and CUDA memory separately, oldest first.
SELECT task_type, peak_memory_bytes, peak_cuda_memory_bytes
FROM (
    SELECT
        tasks.task_type, attempts.peak_memory_bytes, attempts.peak_cuda_memory_bytes,
        attempts.ended_ms, attempts.stream_id, attempts.task_id,
        row_number() OVER (
            PARTITION BY tasks.task_type, attempts.peak_memory_bytes IS NULL
            ORDER BY attempts.ended_ms DESC, attempts.stream_id DESC, attempts.task_id DESC
        ) AS by_memory,
        row_number() OVER (
            PARTITION BY tasks.task_type, attempts.peak_cuda_memory_bytes IS NULL
            ORDER BY attempts.ended_ms DESC, attempts.stream_id DESC, attempts.task_id DESC
        ) AS by_cuda
    FROM attempts
    JOIN tasks ON tasks.task_id = attempts.task_id AND tasks.stream_id = attempts.stream_id
    WHERE attempts.ending = 'finished'
) AS ranked
WHERE (by_memory <= $1 AND peak_memory_bytes IS NOT NULL)
    OR (by_cuda <= $1 AND peak_cuda_memory_bytes IS NOT NULL)
ORDER BY ended_ms, stream_id, task_id
