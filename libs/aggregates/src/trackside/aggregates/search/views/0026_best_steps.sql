-- The trials after which the best value of a search changed, for each of its objectives, and the last one that ended:
-- what a chart of the best value needs, of however many trials.
SELECT
    steps.search_id, steps.objective, steps.objective_number, steps.trial, steps.best_value AS last_best, steps.ended_at
FROM (
    SELECT
        best_so_far.search_id, best_so_far.objective, best_so_far.objective_number, best_so_far.trial,
        best_so_far.best_value, best_so_far.ended_at,
        lag(best_so_far.best_value) OVER by_end AS previous, lead(best_so_far.trial) OVER by_end AS following
    FROM dashboards.best_so_far AS best_so_far
    WINDOW by_end AS (
        PARTITION BY best_so_far.search_id, best_so_far.objective_number
        ORDER BY best_so_far.ended_at, best_so_far.trial
    )
) AS steps
WHERE steps.best_value IS DISTINCT FROM steps.previous OR steps.following IS NULL
