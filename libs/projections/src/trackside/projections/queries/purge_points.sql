-- $1: jobs, $2: how many points at most.
DELETE FROM metric_points WHERE ctid = ANY(ARRAY(
    SELECT metric_points.ctid FROM metric_points
    JOIN metric_series ON metric_series.series = metric_points.series
    WHERE metric_series.task_id = ANY($1)
    LIMIT $2
))
