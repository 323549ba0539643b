-- The best value that a search had when each of its trials succeeded: a curve that only gets better.
SELECT
    trials.search_id, trials.trial, trials.value,
    CASE searches.direction
        WHEN 'maximize' THEN max(trials.value) OVER so_far
        ELSE min(trials.value) OVER so_far
    END AS best_value,
    row_number() OVER so_far AS finished,
    to_timestamp(trials.ended_ms / 1000.0) AS ended_at
FROM trials
JOIN searches ON searches.search_id = trials.search_id
WHERE trials.status = 'SUCCEEDED' AND trials.value <> 'NaN'
WINDOW so_far AS (
    PARTITION BY trials.search_id ORDER BY trials.ended_ms, trials.trial ROWS UNBOUNDED PRECEDING
)
