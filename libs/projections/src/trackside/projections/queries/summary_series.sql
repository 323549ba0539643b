-- Series of jobs ($1) of a kind ($2), of all tags or of some ($3). The values of a series count below the step
-- `counted_below`: from there on a later attempt, or a later session of a directory, has them, as in view metrics.
WITH chosen AS (
    SELECT
        metric_series.series, metric_series.stream_id, metric_series.task_id, metric_series.attempt,
        metric_series.tag, metric_totals.points, metric_totals.first_step, metric_totals.last_step,
        metric_totals.first_ms, metric_totals.last_ms
    FROM metric_series
    JOIN metric_totals ON metric_totals.series = metric_series.series
    WHERE metric_series.task_id = ANY($1::text[]) AND metric_series.kind = $2
        AND ($3::text[] IS NULL OR metric_series.tag = ANY($3::text[]))
),
again AS (
    SELECT
        attempts.task_id, attempts.stream_id, attempts.attempt, coalesce(attempts.resumed_step, 0) AS step
    FROM attempts
    WHERE attempts.task_id = ANY($1::text[])
        AND (attempts.resumed_step IS NOT NULL OR EXISTS (
            SELECT FROM metric_series AS later
            WHERE later.task_id = attempts.task_id AND later.stream_id = attempts.stream_id
                AND later.attempt = attempts.attempt AND later.tag NOT LIKE 'system/%'
        ))
)
SELECT
    chosen.series, chosen.task_id AS job_id, chosen.attempt, chosen.tag, chosen.points, chosen.first_step,
    chosen.last_step, chosen.first_ms, chosen.last_ms,
    CASE WHEN chosen.tag NOT LIKE 'system/%' THEN least(
        (
            SELECT min(again.step) FROM again
            WHERE again.task_id = chosen.task_id AND again.stream_id = chosen.stream_id
                AND again.attempt > chosen.attempt
        ),
        CASE WHEN chosen.stream_id = chosen.task_id THEN min(chosen.first_step) OVER (
            PARTITION BY chosen.task_id, chosen.tag ORDER BY chosen.attempt
            ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
        ) END
    ) END AS counted_below
FROM chosen
ORDER BY chosen.task_id, chosen.tag, chosen.attempt
