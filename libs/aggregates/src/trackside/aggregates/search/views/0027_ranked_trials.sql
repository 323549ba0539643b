-- Trials with a number by which the best is the first: the value of the first objective, negated where it is maximized.
SELECT
    trials.search_id, trials.trial, trials.task_id, trials.status, trials.value, trials.parameters,
    CASE searches.direction WHEN 'maximize' THEN -trials.value ELSE trials.value END AS rank_value,
    time_of(trials.suggested_ms) AS suggested_at,
    time_of(trials.ended_ms) AS ended_at,
    (trials.ended_ms - trials.suggested_ms) / 1000.0 AS duration_s,
    cardinality(trials.report_steps) AS reports, trials.last_step, trials.last_value, trials.trace_id
FROM trials
JOIN searches ON searches.search_id = trials.search_id
WHERE trials.value IS NOT NULL AND trials.value NOT IN ('NaN', 'Infinity', '-Infinity')
