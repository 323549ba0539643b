-- Each trial with those that it comes from by their checkpoints: the first one, and all of them in order.
WITH RECURSIVE lines AS (
    SELECT search_id, trial, trial AS first_trial, ARRAY[trial] AS line
    FROM trials
    WHERE from_trial IS NULL
    UNION ALL
    SELECT trials.search_id, trials.trial, lines.first_trial, lines.line || trials.trial
    FROM trials
    JOIN lines ON lines.search_id = trials.search_id AND lines.trial = trials.from_trial
)
SELECT
    lines.search_id, lines.trial, lines.first_trial, lines.line, cardinality(lines.line) AS turn,
    trials.from_trial, trials.from_step, trials.step_limit, trials.status, trials.value, trials.parameters
FROM lines
JOIN trials ON trials.search_id = lines.search_id AND trials.trial = lines.trial
