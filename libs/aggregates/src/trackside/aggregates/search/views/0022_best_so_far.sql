-- The best value of a search after each of its trials that succeeded, one curve for each of its objectives.
SELECT
    search_id, trial, objective, objective_number, value,
    CASE direction
        WHEN 'maximize' THEN max(value) OVER so_far
        ELSE min(value) OVER so_far
    END AS best_value,
    row_number() OVER so_far AS finished,
    ended_at
FROM dashboards.objective_values
WHERE value <> 'NaN'
WINDOW so_far AS (
    PARTITION BY search_id, objective_number ORDER BY ended_at, trial ROWS UNBOUNDED PRECEDING
)
