INSERT INTO metric_totals (
    series, task_id, attempt, tag, kind, newest, points, first_step, last_step, last_value, last_non_finite,
    min_value, max_value, sum_value, non_finite, first_ms, last_ms
)
SELECT
    counted.series, own.task_id, own.attempt, own.tag, own.kind,
    own.attempt = max(own.attempt) OVER (PARTITION BY own.task_id, own.tag, own.kind),
    counted.points, counted.first_step, counted.last_step, counted.last_value, counted.last_non_finite,
    counted.min_value, counted.max_value, counted.sum_value, counted.non_finite, counted.first_ms,
    counted.last_ms
FROM (
    SELECT
        sums.series, sums.points, sums.first_step, sums.last_step, last.value AS last_value,
        last.non_finite AS last_non_finite, sums.min_value, sums.max_value, sums.sum_value, sums.non_finite,
        sums.first_ms, sums.last_ms
    FROM (
        SELECT
            series, count(*) AS points, min(step) AS first_step, max(step) AS last_step,
            min(value) AS min_value, max(value) AS max_value,
            trim_scale(coalesce(sum(value::numeric), 0)) AS sum_value,
            count(*) FILTER (WHERE value IS NULL) AS non_finite,
            min(wall_time_ms) AS first_ms, max(wall_time_ms) AS last_ms
        FROM metric_points
        GROUP BY series
    ) AS sums
    JOIN metric_points AS last ON last.series = sums.series AND last.step = sums.last_step
    UNION ALL
    SELECT
        series, count(*), min(step), max(step), NULL, NULL, NULL, NULL, 0, 0, min(wall_time_ms),
        max(wall_time_ms)
    FROM summary_items
    GROUP BY series
) AS counted
JOIN metric_series AS own ON own.series = counted.series
