INSERT INTO metric_totals (
    series, points, first_step, last_step, last_value, last_non_finite, min_value, max_value, sum_value,
    non_finite, first_ms, last_ms
)
SELECT
    counted.series, counted.points, counted.first_step, counted.last_step, last.value, last.non_finite,
    counted.min_value, counted.max_value, counted.sum_value, counted.non_finite, counted.first_ms,
    counted.last_ms
FROM (
    SELECT
        series, count(*) AS points, min(step) AS first_step, max(step) AS last_step, min(value) AS min_value,
        max(value) AS max_value, coalesce(sum(value::numeric), 0) AS sum_value,
        count(*) FILTER (WHERE value IS NULL) AS non_finite,
        min(wall_time_ms) AS first_ms, max(wall_time_ms) AS last_ms
    FROM metric_points
    GROUP BY series
) AS counted
JOIN metric_points AS last ON last.series = counted.series AND last.step = counted.last_step
UNION ALL
SELECT
    series, count(*), min(step), max(step), NULL, NULL, NULL, NULL, 0, 0, min(wall_time_ms), max(wall_time_ms)
FROM summary_items
GROUP BY series
