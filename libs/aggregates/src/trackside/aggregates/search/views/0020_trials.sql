-- Each has a search: by the outer join a query that asks for neither `best` nor `in_pareto_front` does not read it.
SELECT
    trials.search_id, trials.trial, trials.task_id, trials.status, trials.source, trials.space_version,
    trials.value, trials.parameters,
    trials.non_finite, trials.objective_values, trials.others, trials.missing,
    trials.outside,
    time_of(trials.suggested_ms) AS suggested_at,
    time_of(trials.ended_ms) AS ended_at,
    (trials.ended_ms - trials.suggested_ms) / 1000.0 AS duration_s,
    cardinality(trials.report_steps) AS reports, trials.last_step, trials.last_value,
    trials.report_steps, trials.report_values,
    trials.trial IS NOT DISTINCT FROM searches.best_trial AS best,
    trials.trial = ANY (searches.pareto_front) AS in_pareto_front,
    trials.from_trial, trials.from_step, trials.step_limit, trials.trace_id, trials.suggested_ms, trials.ended_ms
FROM trials
LEFT JOIN searches ON searches.search_id = trials.search_id
