-- The step of the point that follows the first $3 points of series ($1) from step $2 on.
SELECT step FROM metric_points WHERE series = ANY($1::bigint[]) AND step >= $2 ORDER BY step OFFSET $3 LIMIT 1
