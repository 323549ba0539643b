-- Adds what is counted of new rows, given as one array for each column of `TOTALS`.
INSERT INTO metric_totals AS known (
    series, task_id, attempt, tag, kind, newest, points, first_step, last_step, last_value, last_non_finite,
    min_value, max_value, sum_value, non_finite, first_ms, last_ms
)
SELECT
    series, task_id, attempt, tag, kind, newest, points, first_step, last_step, last_value, last_non_finite,
    min_value, max_value, trim_scale(sum_value), non_finite, first_ms, last_ms
FROM unnest(
    $1::bigint[], $2::text[], $3::integer[], $4::text[], $5::text[], $6::boolean[], $7::bigint[], $8::bigint[],
    $9::bigint[], $10::double precision[], $11::smallint[], $12::double precision[], $13::double precision[],
    $14::numeric[], $15::bigint[], $16::bigint[], $17::bigint[]
) AS new (
    series, task_id, attempt, tag, kind, newest, points, first_step, last_step, last_value, last_non_finite,
    min_value, max_value, sum_value, non_finite, first_ms, last_ms
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
    sum_value = trim_scale(known.sum_value + excluded.sum_value),
    non_finite = known.non_finite + excluded.non_finite,
    first_ms = least(known.first_ms, excluded.first_ms),
    last_ms = greatest(known.last_ms, excluded.last_ms)
