INSERT INTO metric_totals AS known (
    series, points, first_step, last_step, last_value, last_non_finite, min_value, max_value, sum_value,
    non_finite, first_ms, last_ms
) VALUES (
    $1, $2, $3, $4, $5, $6, $7, $8,
    (SELECT coalesce(sum(new_value::numeric), 0) FROM unnest($9::double precision[]) AS new_value),
    $10, $11, $12
)
ON CONFLICT (series) DO UPDATE SET
    points = known.points + excluded.points,
    first_step = least(known.first_step, excluded.first_step),
    last_step = greatest(known.last_step, excluded.last_step),
    last_value = CASE
        WHEN excluded.last_step > known.last_step THEN excluded.last_value ELSE known.last_value
    END,
    last_non_finite = CASE
        WHEN excluded.last_step > known.last_step THEN excluded.last_non_finite ELSE known.last_non_finite
    END,
    min_value = least(known.min_value, excluded.min_value),
    max_value = greatest(known.max_value, excluded.max_value),
    sum_value = known.sum_value + excluded.sum_value,
    non_finite = known.non_finite + excluded.non_finite,
    first_ms = least(known.first_ms, excluded.first_ms),
    last_ms = greatest(known.last_ms, excluded.last_ms)
